"""The control thread, the commands that reach it, and what it shows of itself."""
