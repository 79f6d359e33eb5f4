"""The token of a Hudi table: the version of its properties, and the stamp of its timeline."""

from __future__ import annotations

from lakewarden.planners.formats.hudi.metadata.table_properties import FILE, HOME, TIMELINE, read_table_properties
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage

_MOST_REMEMBERED = 100_000


class Tokens:
    """Asks each storage for two things at most: in an object store one HEAD, and one listing of the folder that the
    properties name. Another listing, of `.hoodie`, would double the price of a table's polls.

    The place of a table's timeline is remembered while its properties are of the version in which they named it.
    Thread-safe.
    """

    def __init__(self) -> None:
        self._timelines: dict[str, tuple[str, str]] = {}

    def of(self, location: str, storage: Storage) -> str:
        """Return the token of the table at `location`.

        Raises PermanentError if there is none, and what reading its properties raises.
        """
        try:
            version = storage.version(f"{location}/{HOME}/{FILE}")
        except FileNotFoundError:  # Hudi may be replacing it just now, by way of a backup
            return _of_both_folders(location, storage)
        timeline = self._timeline(location, storage, version)
        try:
            return f"{version}/{storage.stamp(timeline)}"
        except FileNotFoundError:
            return version

    def _timeline(self, location: str, storage: Storage, version: str) -> str:
        """Return the folder of the timeline. It is remembered only if the properties that name it are known to be of
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
    """Return the stamps of `.hoodie` and of the default folder of timelines of layout 2 in it."""
    home = f"{location}/{HOME}"
    try:
        stamp = storage.stamp(home)
    except FileNotFoundError as error:
        raise PermanentError(f"{location} holds no Hudi table: it has no {HOME} folder") from error
    try:
        return f"{stamp}/{storage.stamp(f'{home}/{TIMELINE}')}"
    except FileNotFoundError:
        return stamp
