"""Databases of other programs: read through SQLAlchemy within bounds, and never written to."""
