"""The identity of an Iceberg table. It changes if the table is dropped and created again."""

from __future__ import annotations

from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.model.view import TableIdentity

UNKNOWN = "unknown"


def table_identity(location: str, metadata: TableMetadata) -> TableIdentity:
    """Return the address of the table and its `table-uuid`, which never changes. Tables of format version 1 need not
    have one. Then all tables that were ever at that location count as one.
    """
    return TableIdentity(location=location, created=metadata.uuid or UNKNOWN)
