"""Values that every room of the service speaks of."""
