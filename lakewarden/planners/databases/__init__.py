"""Databases of other programs: read through SQLAlchemy within bounds, and never written to."""

JDBC_URIS = r"^jdbc:(postgresql|mysql|sqlite):\S+$"
"""The form of the addresses of databases, without user and password: `jdbc:postgresql://host:5432/catalog`."""
