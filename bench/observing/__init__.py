"""What it costs to read the metadata of a large table."""
