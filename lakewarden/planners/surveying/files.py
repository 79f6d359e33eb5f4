"""All files below a table, as far as there are not too many, and what joining the small ones of a place gives."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.ports import DeepListing, FileEntry, Storage
from lakewarden.planners.surveying.contents import MOST_FILES, Amount, Rewrite

_DEEPEST = 32
"""How many levels of folders are entered. A link that leads back ends here."""

Take = Callable[[str, FileEntry], None]
"""Takes a file with its path below the table."""


class _EnoughError(LakewardenError):
    """There are more files than are looked at."""


def each_file(location: str, storage: Storage, take: Take, *, most: int = MOST_FILES) -> str | None:
    """Give `take` every file below a folder, `most` files at most. Return in words what was left out, if anything.

    A folder that is gone has no files. Raises TemporaryError and PermanentError if one cannot be listed.
    """
    left = most

    def one(path: str, entry: FileEntry) -> None:
        nonlocal left
        if not left:
            raise _EnoughError
        left -= 1
        take(path, entry)

    try:
        if isinstance(storage, DeepListing):
            storage.each_below(location, one)
        else:
            _walk(location, storage, one)
    except FileNotFoundError:
        return None
    except _EnoughError:
        return f"only the first {most} files below it were looked at: its figures are too low"
    return None


def _walk(location: str, storage: Storage, take: Take) -> None:
    waiting = [("", 0)]
    while waiting:
        folder, depth = waiting.pop()
        try:
            for entry in storage.entries(f"{location}/{folder}".rstrip("/")):
                path = f"{folder}{entry.name}"
                if not entry.is_folder:
                    take(path, entry)
                elif depth < _DEEPEST:
                    waiting.append((f"{path}/", depth + 1))
        except FileNotFoundError:
            continue  # it has just been deleted


class Joining:
    """Adds up small files by place. A place is a partition: files of two places are never joined."""

    def __init__(self, *, target: int, least: int = 2) -> None:
        """`target` is the size in bytes of a joined file. A place with fewer than `least` small files stays as it
        is.
        """
        self._target = max(1, target)
        self._least = least
        self._places: dict[object, Amount] = {}

    def add(self, place: object, size: int) -> None:
        """Add a small file."""
        self._places[place] = self._places.get(place, Amount()).plus(Amount(1, size))

    @property
    def all(self) -> Amount:
        """Return all small files."""
        return Amount(sum(one.files for one in self._places.values()), sum(one.bytes for one in self._places.values()))

    def rewrite(self) -> Rewrite:
        """Return what joining them rewrites. A place in which it makes no file fewer is left out."""
        files = size = after = 0
        for one in self._places.values():
            becomes = max(1, ceil(one.bytes / self._target))
            if one.files >= self._least and becomes < one.files:
                files, size, after = files + one.files, size + one.bytes, after + becomes
        return Rewrite(files, size, after)


def not_there(named: int, found: int) -> str | None:
    """Return a note if data files of a table are not in its folder. None if all are."""
    if found >= named:
        return None
    return f"{named - found} of its {named} data files are not in its folder, so their sizes and ages are not known"
