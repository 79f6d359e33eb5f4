"""What happened, told to everything that listens."""
