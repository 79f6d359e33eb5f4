"""What tells whether a Hudi table has changed: the version of its properties, and the stamp of its timeline."""

from __future__ import annotations

from lakewarden.planners.formats.hudi.metadata.table_properties import FILE, HOME, TIMELINE, read_table_properties
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage

_MOST_REMEMBERED = 100_000


class Tokens:
    """Asks each storage for two things at most: in an object store one HEAD, and one listing of the folder that the
    properties name. A listing of `.hoodie` beside it would double what the polls of a table are charged for.

    Where a table has its timeline is remembered for as long as its properties are of the version in which they said
    so. For any thread.
    """

    def __init__(self) -> None:
        self._timelines: dict[str, tuple[str, str]] = {}

    def of(self, location: str, storage: Storage) -> str:
        """Return the token of the table at `location`.

        Raises PermanentError where there is none, and what reading its properties raises.
        """
        try:
            version = storage.version(f"{location}/{HOME}/{FILE}")
        except FileNotFoundError:  # perhaps Hudi is replacing it just now, by way of a backup
            return _of_both_folders(location, storage)
        timeline = self._timeline(location, storage, version)
        try:
            return f"{version}/{storage.stamp(timeline)}"
        except FileNotFoundError:
            return version

    def _timeline(self, location: str, storage: Storage, version: str) -> str:
        """Return the folder of the timeline. It is remembered only where the properties that name it are known to be of
        that version: those read may be newer, and the older ones may be put back.
        """
        known = self._timelines.get(location)
        if known is not None and known[0] == version:
            return known[1]
        timeline = read_table_properties(location, storage).timeline_folder
        if _version_again(location, storage) == version:
            if len(self._timelines) >= _MOST_REMEMBERED:
                self._timelines.clear()
            self._timelines[location] = (version, timeline)
        return timeline


def _version_again(location: str, storage: Storage) -> str | None:
    try:
        return storage.version(f"{location}/{HOME}/{FILE}")
    except FileNotFoundError:
        return None


def _of_both_folders(location: str, storage: Storage) -> str:
    """Return the stamps of `.hoodie` and of the folder in it where timelines of layout 2 are by default."""
    home = f"{location}/{HOME}"
    try:
        stamp = storage.stamp(home)
    except FileNotFoundError as error:
        raise PermanentError(f"{location} holds no Hudi table: it has no {HOME} folder") from error
    try:
        return f"{stamp}/{storage.stamp(f'{home}/{TIMELINE}')}"
    except FileNotFoundError:
        return stamp
