"""Iceberg's own classes on one table: opened, run, and their errors translated."""
