"""The trials on Iceberg."""
