"""Several writers on one Hudi table, and whose fault it is where one of them fails."""
