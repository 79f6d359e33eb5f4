"""The configuration: one YAML file, read at start, refused as a whole where anything in it is wrong."""
