"""The configuration while the daemon runs: it is read again, and tables are registered beside it."""
