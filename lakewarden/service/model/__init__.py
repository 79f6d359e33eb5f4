"""Values that every room of the service uses."""
