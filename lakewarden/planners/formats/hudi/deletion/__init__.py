"""What of a Hudi table may be deleted, and what everything else still needs."""
