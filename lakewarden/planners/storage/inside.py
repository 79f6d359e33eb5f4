"""Whether a path lies in a table's own folder. Every path is checked before anything is done to it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.ports import MOST_ENTRIES, ConditionalWrites, FileEntry, Storage
from lakewarden.planners.storage.locations import HDFS, canonical_scheme, default_host, is_in_catalog, path_without_host

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_OF_EXACT_NAMES = ("s3", "gs")
_PORT_OF_HDFS = ":8020"
_LONGEST = 8192
"""No store takes a longer path. The time to resolve one grows with the square of its length."""

_DEEPEST = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class PathParts:
    """A path in parts: its store (`""` for local disks, else scheme and host), and the names of its folders and
    file.
    """

    store: str
    names: tuple[str, ...]


class NoPlaceError(ValueError):
    """A path with no clear meaning."""


def place_of(path: str, *, store: str, by_key: bool = False) -> PathParts:
    """Return the place of a path in a plan that is executed in `store`. Pure.

    It is read as Hudi's `StoragePath(String)` and Hadoop's `Path(String)` read it: literally, so that `%2F` is three
    letters, and without empty names and `.`. Without a scheme it is in `store`. HDFS without a host is that of the
    machine's `fs.defaultFS`. `by_key` reads it as clients of object stores other than Hadoop's do: there an empty name
    counts. Raises NoPlaceError for a path that is not absolute, names another host, or climbs with `..`. Hadoop
    resolves `..` without regard to links, and a disk does not.
    """
    if not path or len(path) > _LONGEST or "\0" in path:
        raise NoPlaceError("is not a path")
    match = _SCHEME.fullmatch(path)
    if match is None:
        where, rest = store, path
        if rest.startswith("//"):
            raise NoPlaceError("names a host without saying how to reach it")
    elif canonical_scheme(match[1]) in _LOCAL:
        where, rest = "", _without_host(match[2])
    else:
        where, rest = _remote(canonical_scheme(match[1]), match[2])
    if not rest.startswith("/"):
        raise NoPlaceError("is not absolute")
    if by_key and where:
        names = tuple(rest[1:].rstrip("/").split("/"))
    else:
        names = tuple(name for name in rest.split("/") if name not in ("", "."))
    if ".." in names:
        raise NoPlaceError("climbs with '..'")
    return PathParts(store=where, names=names)


def _without_host(rest: str) -> str:
    """Return the path of a file URI: `/x`, `///x` and `//localhost/x` are all `/x`."""
    if not rest.startswith("//"):
        return rest
    host, slash, path = rest[2:].partition("/")
    if host not in ("", "localhost"):
        raise NoPlaceError("names a file on another host")
    return f"{slash}{path}"


def _remote(scheme: str, rest: str) -> tuple[str, str]:
    hostless = path_without_host(rest) if scheme == HDFS else None
    if hostless is not None and (standard := default_host(HDFS)) is not None:
        rest = f"//{standard}{hostless}"
    if not rest.startswith("//"):
        raise NoPlaceError("names no bucket or host")
    host, _, path = rest[2:].partition("/")
    if not host:
        raise NoPlaceError("names no bucket or host")
    if scheme not in _OF_EXACT_NAMES:
        host = host.lower()
    if scheme == HDFS:
        host = host.removesuffix(_PORT_OF_HDFS)
    return f"{scheme}://{host}", f"/{path}"


class Home:
    """A table's own folder. It tells whether a path lies in it. Not for several threads.

    Links on local disks are resolved. A folder that can be reached by two ways is one folder: the disk decides, and not
    the spelling. `private` are names right below the folder that no plan may contain, in upper or lower case, because
    some disks ignore the case. `by_key` is explained at `place_of`.
    """

    def __init__(self, location: str, *, private: Collection[str] = (), by_key: bool = False) -> None:
        """Take the table's location. Raises NoPlaceError if it is no place."""
        place = place_of(location, store="", by_key=by_key)
        self._by_key = by_key
        self._store = place.store
        self._private = {name.casefold() for name in private}
        self._folders: dict[tuple[str, ...], tuple[str, ...] | None] = {}
        self._names = place.names if place.store else _real(place.names)

    def why_outside(self, path: str, *, whole_folder: bool = False) -> str | None:
        """Return in words why a path does not lie in the table's folder. None if it does.

        If a file is itself a link, the link is deleted and not followed. For a `whole_folder` the link is followed.
        """
        try:
            place = place_of(path, store=self._store, by_key=self._by_key)
            if place.store != self._store:
                return "lies in another store"
            below = self._below(place.names, whole_folder=whole_folder)
        except (NoPlaceError, OSError, ValueError) as unresolved:
            return str(unresolved) if isinstance(unresolved, NoPlaceError) else "cannot be resolved"
        if below is None:
            return "lies outside the table"
        if not below:
            return "is the table's folder itself"
        return f"lies in {below[0]}, where no data is" if below[0].casefold() in self._private else None

    def _below(self, names: tuple[str, ...], *, whole_folder: bool) -> tuple[str, ...] | None:
        """Return the names from the table's folder to a path. None if the path is not below it."""
        if self._store:
            return _rest(names, self._names)
        if whole_folder:
            return self._way_to(names)
        if not names:
            return None
        way = self._way_to(names[:-1])
        if way is not None:
            return (*way, names[-1])
        # The path leads to the folder itself by the folder's last name, and not below it.
        return () if self._way_to(names) == () else None

    def _way_to(self, folder: tuple[str, ...]) -> tuple[str, ...] | None:
        if folder not in self._folders:
            real = _real(folder)
            way = _rest(real, self._names)
            self._folders[folder] = self._by_another_way(real) if way is None else way
        return self._folders[folder]

    def _by_another_way(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the names if a folder above the path is the table's folder under another name: a bind mount, or a disk
        without case.
        """
        try:
            home = os.stat(_spelled(self._names))  # noqa: PTH116 - there are many, and no Path is needed
        except OSError:
            return None
        for end in range(len(names), max(0, len(names) - _DEEPEST), -1):
            try:
                above = os.stat(_spelled(names[:end]))  # noqa: PTH116 - as above
            except OSError:
                continue
            if (above.st_dev, above.st_ino) == (home.st_dev, home.st_ino):
                return names[end:]
        return None


def _rest(names: Sequence[str], home: Sequence[str]) -> tuple[str, ...] | None:
    return tuple(names[len(home) :]) if tuple(names[: len(home)]) == tuple(home) else None


def _real(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in os.path.realpath(_spelled(names)).split("/") if name)


def _spelled(names: Sequence[str]) -> str:
    return "/" + "/".join(names)


# Files that may lie in any store: those of a table that is known by its name in a catalog.


class ScatteredStorage:
    """Asks the storage of each single file and folder."""

    def __init__(
        self,
        storage_of: Callable[[str], Storage],
        conditions_of: Callable[[str], ConditionalWrites | None] = lambda _: None,
    ) -> None:
        """`conditions_of` returns the conditional writes below a location, if its store has them."""
        self._storage_of = storage_of
        self.conditions = conditions_of

    def stamp(self, location: str) -> str:
        """Return what the folder's own storage returns."""
        return self.holder(location).stamp(location)

    def changed_at(self, location: str) -> datetime | None:
        """Return what the folder's own storage returns."""
        return self.holder(location).changed_at(location)

    def version(self, location: str) -> str:
        """Return what the file's own storage returns."""
        return self.holder(location).version(location)

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return what the folder's own storage returns."""
        return self.holder(location).listing(location, most=most)

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield what the folder's own storage yields."""
        return self.holder(location).entries(location)

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return what the folder's own storage returns."""
        return self.holder(location).present(location, names)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return what the file's own storage returns."""
        return self.holder(location).read(location, limit=limit)

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return what the file's own storage returns."""
        return self.holder(location).read_part(location, begin=begin, size=size)

    def holder(self, location: str) -> Storage:
        """Return the storage of a file. A name in a catalog has none, because no file lies there.

        Raises PermanentError if the file lies outside of the roots. It reads nothing.
        """
        if is_in_catalog(location):
            raise FileNotFoundError(location)
        return self._storage_of(location)
