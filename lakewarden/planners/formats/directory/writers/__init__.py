"""What writers do in a partition: their rhythm, and whether they are still at it."""
