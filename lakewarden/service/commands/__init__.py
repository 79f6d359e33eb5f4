"""The commands that ask a running daemon, or write into its store. Each has the name of its file."""
