"""What a file of a Hudi table says of itself that it broke off."""
