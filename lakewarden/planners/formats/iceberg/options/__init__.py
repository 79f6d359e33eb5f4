"""The options of an Iceberg table, of its services and of its writers."""
