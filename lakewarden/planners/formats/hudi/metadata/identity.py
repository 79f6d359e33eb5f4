"""The identity of a Hudi table. It changes if the table is dropped and created again."""

from __future__ import annotations

from lakewarden.planners.formats.hudi.metadata.table_properties import HOME
from lakewarden.planners.model.view import TableIdentity
from lakewarden.planners.ports import Storage

_MADE_ONCE = f"{HOME}/.aux/.bootstrap"
UNKNOWN = "unknown"


def table_identity(location: str, storage: Storage) -> TableIdentity:
    """Return the identity of the table at a canonical location.

    Nothing inside `hoodie.properties` is unique (its checksum covers only the table's name). The file changes with
    every upgrade, and so does `.hoodie` itself. But Hudi makes the folders below `.hoodie/.aux/.bootstrap` once, when
    it creates the table, and only bootstrap ever writes there. The oldest of their modification times is the table's
    time of creation.

    Limits: if a copy or restore does not keep folder times, the result is another table, with new leases and no pauses.
    If the folders are missing or have no times (object stores, tables of other makers), all tables that ever were at
    the location count as one.
    """
    try:
        folders = storage.listing(f"{location}/{_MADE_ONCE}")
    except FileNotFoundError:
        folders = ()
    times = [folder.modified for folder in folders if folder.is_folder and folder.modified.timestamp() > 0]
    made = min(times, default=None)
    return TableIdentity(location=location, created=UNKNOWN if made is None else f"{made:%Y%m%dT%H%M%S.%f}")
