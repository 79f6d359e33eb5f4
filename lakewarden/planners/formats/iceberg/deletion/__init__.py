"""Which snapshots and files of an Iceberg table may go, and what the others need."""
