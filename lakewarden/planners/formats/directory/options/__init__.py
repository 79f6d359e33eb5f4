"""What the owner of a directory sets."""
