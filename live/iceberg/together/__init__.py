"""The suite with every kind of writer: one daemon, several tables of one catalog."""
