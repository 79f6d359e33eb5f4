"""By what an Iceberg table is the same table tomorrow, and another one after it was dropped and made again."""

from __future__ import annotations

from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.model.view import TableIdentity

UNKNOWN = "unknown"


def table_identity(location: str, metadata: TableMetadata) -> TableIdentity:
    """Return where the table is registered, and its `table-uuid`, which it is given once. Tables of format version 1
    need not have one: all that ever were at their location count as one.
    """
    return TableIdentity(location=location, created=metadata.uuid or UNKNOWN)
