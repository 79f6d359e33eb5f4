"""Hudi's write client on one table: opened, configured, and its errors translated."""
