"""The trials on Hudi."""
