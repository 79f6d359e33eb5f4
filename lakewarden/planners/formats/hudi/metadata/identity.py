"""By what a Hudi table is the same table tomorrow, and another one after it was dropped and made again."""

from __future__ import annotations

from lakewarden.planners.formats.hudi.metadata.table_properties import HOME
from lakewarden.planners.model.view import TableIdentity
from lakewarden.planners.ports import Storage

_MADE_ONCE = f"{HOME}/.aux/.bootstrap"
UNKNOWN = "unknown"


def table_identity(location: str, storage: Storage) -> TableIdentity:
    """Return the identity of the table at a canonical location.

    Nothing inside `hoodie.properties` is unique (its checksum covers only the table's name), and the file, like
    `.hoodie` itself, changes with every upgrade. But Hudi makes the folders below `.hoodie/.aux/.bootstrap` once,
    when it creates the table, and nothing but bootstrap ever writes there: the oldest of their modification times
    is the table's moment of creation.

    Its limits: a copy or restore that does not keep folder times makes it another table, whose leases and pauses
    start afresh; where the folders are missing or have no times (object stores, tables of other makers), all tables
    that ever were at the location count as one.
    """
    try:
        folders = storage.listing(f"{location}/{_MADE_ONCE}")
    except FileNotFoundError:
        folders = ()
    times = [folder.modified for folder in folders if folder.is_folder and folder.modified.timestamp() > 0]
    made = min(times, default=None)
    return TableIdentity(location=location, created=UNKNOWN if made is None else f"{made:%Y%m%dT%H%M%S.%f}")
