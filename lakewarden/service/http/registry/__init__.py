"""What is registered, and what was found."""
