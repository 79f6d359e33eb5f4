"""The options of a Hudi table, of its services and of its writers."""
