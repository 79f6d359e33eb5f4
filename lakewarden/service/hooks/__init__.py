"""Inbound commit notifications, one file per sender. A hook is a hint: it makes a table dirty, never more."""
