"""What a lock itself shows of having been taken: one module for each place where locks lie. Read-only."""
