"""What the owner of an Iceberg table sets: for the table, for its services, for its writers."""
