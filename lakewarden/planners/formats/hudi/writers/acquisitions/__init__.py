"""What can be seen of a lock after it was taken, with one module for each kind of store. Read-only."""
