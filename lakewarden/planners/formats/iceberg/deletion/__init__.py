"""Which snapshots and files of an Iceberg table may be deleted, and which files the other snapshots need."""
