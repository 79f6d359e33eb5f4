"""Commit notifications, one file per sender. A hook is a hint: it only makes a table dirty."""
