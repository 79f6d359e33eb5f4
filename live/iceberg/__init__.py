"""The suite on Iceberg."""
