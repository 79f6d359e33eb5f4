"""When a partition is committed."""
