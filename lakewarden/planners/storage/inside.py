"""What lies in a table's own folder: the one question that is asked of every path before anything is done to it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewarden.planners.storage.hadoop_defaults import default_host
from lakewarden.planners.storage.locations import HDFS, canonical_scheme, path_without_host

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_OF_EXACT_NAMES = ("s3", "gs")
_PORT_OF_HDFS = ":8020"
_LONGEST = 8192
"""No store takes a longer path, and resolving one takes the square of its length."""

_DEEPEST = 256


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A path, taken apart: its store (`""` is the local disks, else scheme and host), and the names on the way."""

    store: str
    names: tuple[str, ...]


class NoPlaceError(ValueError):
    """A path of which nobody can say where it leads."""


def place_of(path: str, *, store: str, by_key: bool = False) -> Place:
    """Return where a path leads, whose plan is executed in `store`. Pure.

    It is read as Hudi's `StoragePath(String)` and Hadoop's `Path(String)` do: letter by letter, so that `%2F` is three
    letters; without empty names and `.`; without a scheme it is of the store at hand, and HDFS without a host is that
    of the machine's `fs.defaultFS`. `by_key` is how clients of object stores other than Hadoop's read it: there an
    empty name is one as well. Raises NoPlaceError for a path that is not absolute, names another host, or climbs with
    `..`: Hadoop resolves that without a look at links, and a disk does
    not.
    """
    if not path or len(path) > _LONGEST or "\0" in path:
        raise NoPlaceError("is no path")
    found = _SCHEME.fullmatch(path)
    if found is None:
        where, rest = store, path
        if rest.startswith("//"):
            raise NoPlaceError("names a host without saying how to reach it")
    elif canonical_scheme(found[1]) in _LOCAL:
        where, rest = "", _without_host(found[2])
    else:
        where, rest = _remote(canonical_scheme(found[1]), found[2])
    if not rest.startswith("/"):
        raise NoPlaceError("is not absolute")
    if by_key and where:
        names = tuple(rest[1:].rstrip("/").split("/"))
    else:
        names = tuple(name for name in rest.split("/") if name not in ("", "."))
    if ".." in names:
        raise NoPlaceError("climbs with '..'")
    return Place(store=where, names=names)


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
    """A table's own folder. It says of paths whether they lie in it. Not for several threads.

    Links on local disks are resolved, and a folder that can be reached by two ways is one folder: what counts is what
    the disk says, not how it is spelled. `private` are names right below the folder in which no plan has any business,
    whatever their case, since not every disk minds it. `by_key` is explained at `place_of`.
    """

    def __init__(self, location: str, *, private: Collection[str] = (), by_key: bool = False) -> None:
        """Take the table's location. Raises NoPlaceError where that is none."""
        place = place_of(location, store="", by_key=by_key)
        self._by_key = by_key
        self._store = place.store
        self._private = {name.casefold() for name in private}
        self._folders: dict[tuple[str, ...], tuple[str, ...] | None] = {}
        self._names = place.names if place.store else _real(place.names)

    def why_outside(self, path: str, *, whole_folder: bool = False) -> str | None:
        """Return, for people, why a path does not lie in the table's folder; None if it does.

        A file's own name may be a link, which is deleted itself; of a `whole_folder` also that is followed.
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
        """Return the way from the table's folder to a path; None where there is none."""
        if self._store:
            return _rest(names, self._names)
        if whole_folder:
            return self._way_to(names)
        if not names:
            return None
        way = self._way_to(names[:-1])
        if way is not None:
            return (*way, names[-1])
        # The folder's own last name, on a path that leads to it and not below it.
        return () if self._way_to(names) == () else None

    def _way_to(self, folder: tuple[str, ...]) -> tuple[str, ...] | None:
        if folder not in self._folders:
            real = _real(folder)
            way = _rest(real, self._names)
            self._folders[folder] = self._by_another_way(real) if way is None else way
        return self._folders[folder]

    def _by_another_way(self, names: tuple[str, ...]) -> tuple[str, ...] | None:
        """Return the way where a folder above, of another name, is the table's: a bind mount, a disk without case."""
        try:
            home = os.stat(_spelled(self._names))  # noqa: PTH116 - one of many, and no Path is needed
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
