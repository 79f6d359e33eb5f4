"""What the owner of a Hudi table sets: for the table, for its services, for its writers."""
