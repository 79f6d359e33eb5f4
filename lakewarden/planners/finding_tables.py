"""The tables below a path, of every format that can be recognised. Folders are searched, except those that are tables.

`planners/formats/hudi/catalogs/paths.py` does the same for a catalog of the daemon, which registers what it finds. This
search takes no format from the configuration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.path_pattern import ANY_DEPTH, PathPattern, Places
from lakewarden.planners.ports import FileEntry, Sign, Storage
from lakewarden.planners.registry import FORMATS

_DEEPEST = 12
"""How many levels below the root are searched."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The formats of the tables by their locations, those nearest to the root first. `unlisted` are the folders that
    could not be searched, with the reason.
    """

    tables: Mapping[str, str] = field(default_factory=dict)
    unlisted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Folder:
    location: str
    depth: int
    places: Places


def signs() -> Mapping[str, Sign]:
    """Return how the tables of each format are recognised, as far as anything tells them from other folders."""
    return {name: table_format.sign for name, table_format in FORMATS.items() if table_format.sign is not None}


def tables_below(
    text: str, storage: Storage, signs: Mapping[str, Sign], *, exclude: Sequence[str] = (), most: int
) -> Found:
    """Return the tables in the folders that fit a pattern. A path without a wildcard is a table, or stands for all
    below it. `most` is the number of listings that may be made.

    Raises PermanentError for a pattern that cannot be used, and for a root that is missing. Raises TemporaryError if
    the root cannot be listed.
    """
    try:
        pattern = PathPattern.of(text)
        if not pattern.parts:
            pattern = PathPattern.of(f"{text.rstrip('/')}/{ANY_DEPTH}")
        without = [PathPattern.of(exclusion).resolved() for exclusion in exclude]
    except ValueError as wrong:
        raise PermanentError(str(wrong)) from wrong
    return _Search(pattern.resolved(), without, storage, signs, most).found()


def format_at(location: str, storage: Storage, signs: Mapping[str, Sign]) -> str | None:
    """Return the format of the table in a folder. None if it is no table, or not there.

    Raises TemporaryError and PermanentError if the folder cannot be listed.
    """
    try:
        return _format_of(location, storage.listing(location), storage.listing, signs)
    except FileNotFoundError:
        return None


def why_not(format_name: str, location: str, storage: Storage) -> str | None:
    """Return why the table in a folder cannot be opened by this format and its path. None if nothing there says so.

    Raises TemporaryError and PermanentError if the folder cannot be listed.
    """
    found, sign = format_at(location, storage, signs()), signs().get(format_name)
    if found not in (None, format_name):
        return f"the files there are those of a table of the format {found}"
    if found is None or sign is None or sign.by_path is None:
        return None
    if any(sign.by_path.fullmatch(entry.name) for entry in storage.listing(f"{location}/{sign.folder}")):
        return None
    return "only its catalog knows the newest version of such a table: name it as catalog://NAME/TABLE"


def _format_of(
    location: str,
    entries: Sequence[FileEntry],
    listing: Callable[[str], Sequence[FileEntry]],
    signs: Mapping[str, Sign],
) -> str | None:
    """Return the format of the table in a folder with these entries. None if it is no table."""
    folders = {entry.name for entry in entries if entry.is_folder}
    for name, sign in signs.items():
        if sign.folder not in folders:
            continue
        if sign.file is None:
            return name
        try:
            inside = listing(f"{location}/{sign.folder}")
        except FileNotFoundError:
            continue
        if any(sign.file.fullmatch(entry.name) for entry in inside):
            return name
    return None


class _Search:
    """One search, breadth first."""

    def __init__(
        self,
        pattern: PathPattern,
        exclude: Sequence[PathPattern],
        storage: Storage,
        signs: Mapping[str, Sign],
        most: int,
    ) -> None:
        self._pattern, self._exclude, self._storage, self._signs = pattern, exclude, storage, signs
        self._most = self._left = most
        self._tables: dict[str, str] = {}
        self._unlisted: dict[str, str] = {}
        self._waiting = deque([_Folder(location=pattern.root, depth=0, places=pattern.start)])

    def found(self) -> Found:
        while self._waiting:
            if self._left <= 0:
                why = f"there is more below it than {self._most} requests show: write a narrower path, or exclude some"
                self._unlisted[self._pattern.root] = why
                break
            self._look_at(self._waiting.popleft())
        return Found(tables=self._tables, unlisted=self._unlisted)

    def _look_at(self, folder: _Folder) -> None:
        try:
            entries = self._listing(folder.location)
            format_name = _format_of(folder.location, entries, self._listing, self._signs)
        except FileNotFoundError:
            if not folder.depth:
                raise PermanentError(f"there is no folder {folder.location}") from None
            return
        except (TemporaryError, PermanentError) as error:
            if not folder.depth:
                raise
            self._unlisted[folder.location] = str(error)
            return
        if format_name is None:
            self._waiting.extend(self._below(folder, entries))
        elif self._pattern.is_fitted(folder.places):
            self._tables[folder.location] = format_name

    def _below(self, folder: _Folder, entries: Sequence[FileEntry]) -> Iterator[_Folder]:
        if not self._pattern.goes_on(folder.places):
            return
        if folder.depth >= _DEEPEST:
            self._unlisted[folder.location] = f"it is more than {_DEEPEST} levels below {self._pattern.root}"
            return
        for way in self._pattern.ways(folder.location, folder.places, entries, self._exclude):
            if way.refused is not None:
                self._unlisted[way.location] = way.refused
            else:
                yield _Folder(location=way.location, depth=folder.depth + 1, places=way.places)

    def _listing(self, location: str) -> Sequence[FileEntry]:
        self._left -= 1
        return self._storage.listing(location)
