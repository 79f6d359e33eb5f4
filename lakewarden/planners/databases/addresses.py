"""The addresses of databases, as JDBC writes them. Free of SQLAlchemy, which few daemons need."""

from __future__ import annotations

JDBC_URIS = r"^jdbc:(postgresql|mysql|sqlite):\S+$"
"""The form of the addresses of databases, without user and password: `jdbc:postgresql://host:5432/catalog`."""
