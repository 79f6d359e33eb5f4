"""Iceberg's own classes for one table: how it is opened, how they run, and how their errors are translated."""
