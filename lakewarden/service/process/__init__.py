"""The process of the daemon: its logs, its signals, and its end."""
