"""Spark, as directories need it."""
