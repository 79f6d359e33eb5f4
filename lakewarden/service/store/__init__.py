"""The store: an index of what we did and decided. The table's timeline stays the truth."""
