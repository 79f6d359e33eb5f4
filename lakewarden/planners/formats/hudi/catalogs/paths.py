"""The tables below a path: folders are searched, except those that are tables.

A table is a folder with the file `.hoodie/hoodie.properties`, which Hudi writes when it makes a table.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, field_validator

from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.path_pattern import PathPattern, Places
from lakewarden.planners.ports import FileEntry, Listing, Storage
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.planners.storage.locations import spelled_location

# The settings of the catalogs in which Hudi tables are found.


class PathsCatalog(Settings):
    """`type: paths`: the tables in the folders that fit a pattern. A table's name is its path below the part of the
    pattern that has no wildcard, with dots: `s3://lake/*/hudi_*` finds `sales.hudi_orders`.
    """

    type: Literal["paths"]

    path: str
    """The pattern. `*` and `?` match within one name, `**` matches any number of folders. A folder with a name that
    begins with `.` or `_` fits only a pattern that begins so. `**` enters no folder of a partition (`day=...`)."""

    exclude: tuple[str, ...] = ()
    """Patterns of folders, written like `path`. These folders are not searched, nor anything below them."""

    max_depth: Annotated[int, Within(1, 64)] = 8
    """The most levels of folders that are searched below the part without wildcards. It bounds `**`."""

    max_requests: Annotated[int, Within(1, 10_000_000)] = 100_000
    """The most requests each time: one for each folder that may be a table, one for each that is listed. If more are
    needed, that is reported, and no table is forgotten."""

    @field_validator("path", "exclude")
    @classmethod
    def _are_patterns(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        for text in [value] if isinstance(value, str) else value:
            PathPattern.of(text)
        return value


class HiveCatalog(Settings):
    """`type: hive`: the Hudi tables of a Hive metastore, named `<database>.<table>`. The views `_ro` and `_rt` of one
    table are that table. It needs the extra `hive`.
    """

    type: Literal["hive"]

    uri: str = Field(pattern=URIS, examples=["thrift://metastore:9083"])
    """The metastore, `thrift://host:9083`, with commas between several. The first that answers is used. Kerberos and
    TLS are not supported."""

    databases: tuple[str, ...] = ("*",)
    """Patterns of the databases that are listed, with `*` and `?` (all by default)."""

    below: tuple[str, ...] = ()
    """Places such as `s3://lake`. A table that is below none of them is refused. People who may create tables in the
    metastore choose the locations. So set this if Lakewarden acts on the tables. By default tables may be anywhere."""

    timeout: Annotated[Duration, Within("100ms", "10m")] = Field(default="10s", validate_default=True)
    """A request without an answer by then has failed."""

    @field_validator("below")
    @classmethod
    def _places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                spelled_location(text)
            except PermanentError as wrong:
                raise ValueError(str(wrong)) from wrong
        return value


Catalog = Annotated[PathsCatalog | HiveCatalog, Field(discriminator="type")]


_HOODIE = ".hoodie"


class _EnoughError(LakewardenError):
    """The limit of requests is reached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Folder:
    """A folder to look at: its location, its names below the first one, and how far into the pattern it may be."""

    location: str
    names: tuple[str, ...]
    places: Places

    @property
    def called(self) -> str:
        """Return the name of a table in it. The first folder has its own name."""
        return ".".join(self.names) or self.location.rpartition("/")[2]


def tables_below(catalog: PathsCatalog, storage: Storage) -> Listing:
    """Return the tables in the folders that fit the catalog's pattern, those nearest to its root first.

    A folder that cannot be listed is reported, and the others are searched. Links below the root are not followed. They
    may lead anywhere, also in circles, and their targets have addresses of their own. Raises TemporaryError and
    PermanentError if the root cannot be listed, is missing, or is empty. A disk that is not mounted looks empty.
    """
    return _Walk(catalog, storage).listing()


class _Walk:
    """One search through the folders, breadth first."""

    def __init__(self, catalog: PathsCatalog, storage: Storage) -> None:
        self._storage = storage
        self._pattern = PathPattern.of(catalog.path).resolved()
        self._exclude = [PathPattern.of(text).resolved() for text in catalog.exclude]
        self._depth = catalog.max_depth
        self._requests = self._left = catalog.max_requests
        self._waiting = deque([_Folder(location=self._pattern.root, names=(), places=self._pattern.start)])
        self._found: dict[str, str] = {}
        self._unlisted: dict[str, str] = {}
        self._refused: dict[str, str] = {}

    def listing(self) -> Listing:
        try:
            while self._waiting:
                self._look_at(self._waiting.popleft())
        except _EnoughError:
            more = f"there is more below {self._pattern.root} than {self._requests} requests show"
            self._unlisted = {"": f"{more}: write a narrower path, exclude folders, or raise max_requests"}
        return Listing(tables=tuple(self._found), locations=self._found, unlisted=self._unlisted, refused=self._refused)

    def _look_at(self, folder: _Folder) -> None:
        """Find a table there, or the folders below it. An error of a folder is reported for that folder alone."""
        try:
            if self._pattern.is_fitted(folder.places) and self._is_table(folder):
                self._register(folder)
            elif self._pattern.goes_on(folder.places) and len(folder.names) < self._depth:
                for below in self._below(folder):
                    if len(self._waiting) >= self._left:
                        raise _EnoughError
                    self._waiting.append(below)
        except FileNotFoundError:
            if not folder.names:
                raise PermanentError(f"there is no folder {folder.location}") from None
        except (TemporaryError, PermanentError) as error:
            if not folder.names:
                raise
            self._unlisted[".".join(folder.names)] = str(error)

    def _is_table(self, folder: _Folder) -> bool:
        self._count()
        try:
            self._storage.version(f"{folder.location}/{_HOODIE}/hoodie.properties")
        except FileNotFoundError:
            return False
        return True

    def _register(self, folder: _Folder) -> None:
        other = self._found.setdefault(folder.called, folder.location)
        if other != folder.location:
            self._refused[folder.location] = f"the table at {other} has the same name, {folder.called}"

    def _below(self, folder: _Folder) -> Iterator[_Folder]:
        """Yield the folders in a folder that may fit, or lead to one that fits; none if it is a table itself."""
        entries = self._entries(folder)
        if any(entry.name == _HOODIE for entry in entries):
            return  # it does not fit, or is being made or dropped
        for way in self._pattern.ways(folder.location, folder.places, entries, self._exclude):
            if way.refused is not None:
                self._refused[way.location] = way.refused
            else:
                yield _Folder(location=way.location, names=(*folder.names, way.name), places=way.places)

    def _entries(self, folder: _Folder) -> Sequence[FileEntry]:
        self._count()
        entries = self._storage.listing(folder.location)
        if not entries and not folder.names:
            raise TemporaryError(f"{folder.location} holds nothing: is it mounted?")
        return entries

    def _count(self) -> None:
        if self._left == 0:
            raise _EnoughError
        self._left -= 1
