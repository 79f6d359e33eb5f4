"""What may be deleted from a Hudi table, and what is still needed."""
