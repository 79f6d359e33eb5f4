"""The folders in which Hudi writes and deletes for a table, besides those of its data. They must lie in the table, too.

The table's own properties name some of them, and any of them may be a link.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.planners.formats.hudi.deletion.named import in_folder
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.properties import parse_properties
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME, TIMELINE, TableProperties
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.inside import Home

_PROPERTIES = "hoodie.properties"
_LARGEST = 2**20


def stray_folder(location: str, properties: TableProperties, *, named: Mapping[str, str] | None = None) -> str | None:
    """Return in words which of the table's folders leads out of it, and why. None if none does.

    `named` is what `hoodie.properties` says. Without it the folders are those of a table that names none.
    """
    home = Home(location)
    for what, path in _folders(location, properties, named or {}):
        why = home.why_outside(path, whole_folder=True)
        if why is not None:
            return f"{what} of the table is {path[:300]}, which {why}"
    return None


def named_folders(location: str, storage: Storage) -> Mapping[str, str]:
    """Return what `hoodie.properties` says now. Raises TemporaryError while the file is missing: it is replaced."""
    try:
        return parse_properties(storage.read(f"{location}/{HOME}/{_PROPERTIES}", limit=_LARGEST))
    except FileNotFoundError as gone:
        raise TemporaryError(f"{_PROPERTIES} of {location} is not there") from gone


def blocker(found: str) -> Blocker:
    """Return the blocker for such a folder. It blocks every service, because every commit may write there."""
    return Blocker(
        code="moved_or_copied",
        reason=f"{found}: what Hudi writes or deletes there may be another table's",
        remedy="make it a folder inside the table, or remove the property that names it",
    )


def _folders(location: str, properties: TableProperties, named: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each folder with its name for people (`HoodieTableMetaClient`, `HoodieTableConfig`)."""
    home = f"{location}/{HOME}"
    yield "the home", home
    yield "the timeline", properties.timeline_folder
    for name in ("metadata", ".temp", ".aux", ".heartbeat"):
        yield name, f"{home}/{name}"
    if properties.layout is Layout.V1:
        yield "the archive", in_folder(home, named.get("hoodie.archivelog.folder") or "archived")
    else:
        history = named.get("hoodie.timeline.history.path") or "history"
        yield "the history", in_folder(properties.timeline_folder or f"{home}/{TIMELINE}", history)
    if named.get("hoodie.table.index.defs.path"):
        yield "the definitions of indexes", in_folder(location, named["hoodie.table.index.defs.path"])
