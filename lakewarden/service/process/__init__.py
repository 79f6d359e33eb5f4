"""The process itself: its logs, its signals, and its end."""
