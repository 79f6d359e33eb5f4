"""By what a Paimon table is the same table tomorrow, and another one after it was dropped and made again."""

from __future__ import annotations

from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.model.view import TableIdentity

UNKNOWN = "unknown"


def table_identity(location: str, first: Schema) -> TableIdentity:
    """Return where the table is, and when its first schema was made, in milliseconds. Schemas are never deleted. The
    first releases did not write the time: all tables of theirs that ever were at this location count as one.
    """
    at = first.at
    return TableIdentity(location=location, created=UNKNOWN if at is None else str(round(at.timestamp() * 1000)))
