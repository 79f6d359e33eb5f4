"""What the store costs with a long history."""
