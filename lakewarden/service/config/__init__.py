"""The configuration: one YAML file, read at the start. If anything in it is wrong, the whole file is refused."""
