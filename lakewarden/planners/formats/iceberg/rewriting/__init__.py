"""What a rewrite of an Iceberg table takes, and what it must not take with it."""
