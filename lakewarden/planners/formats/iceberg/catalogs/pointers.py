"""Finds a table's newest metadata file without a JVM: one question to its catalog or its folder."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar, assert_never, cast

from lakewarden.planners.formats.iceberg.catalogs.answers import LoginRefusedError
from lakewarden.planners.formats.iceberg.catalogs.hadoop import HadoopTables
from lakewarden.planners.formats.iceberg.catalogs.settings import (
    Catalog,
    HadoopCatalog,
    HiveCatalog,
    JdbcCatalog,
    RestCatalog,
)
from lakewarden.planners.formats.iceberg.catalogs.vended.credentials import Vended
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, installing
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing, Storage
from lakewarden.planners.storage.locations import canonical_location, named_in_catalog

if TYPE_CHECKING:
    from lakewarden.planners.formats.iceberg.catalogs.rest import RestServer

_T = TypeVar("_T")

Etags = dict[str, tuple[str, str]]
"""By table: the ETag of its last answer, and the metadata location in that answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointer:
    """A table at one moment: the address of its metadata file, as its catalog spells it, and a text that changes with
    the table.
    """

    token: str
    metadata_file: str


class OpenCatalog(Protocol):
    """A catalog that was opened. Any thread may use it."""

    def metadata_file(self, identifier: str) -> str:
        """Return the address of the newest metadata file of `namespace.table`.

        Raises TemporaryError if the catalog gives no answer, RefusedError if it refuses the login, and PermanentError
        if it has no such table.
        """
        ...

    def tables(self) -> Listing:
        """Return the identifiers of all tables, in order. Raises the same errors as `metadata_file`."""
        ...


class Pointers:
    """Asks catalogs and file systems for the pointers of tables. Each catalog is opened once and kept. Any thread may
    use it.

    A table that fails is asked for again after a delay that grows (`scheduling/poller.py`). A catalog that hangs keeps
    only the readers of its own tables waiting, each for its time-out.
    """

    def __init__(self) -> None:
        self._hadoop = HadoopTables()
        self._known: dict[tuple[str, str], _Known] = {}
        self._opening = threading.Lock()

    def of(self, table: Table, storage: Storage) -> Pointer:
        """Return the table's pointer. It takes one request, or two for a Hadoop table.

        Raises PermanentError if there is no such table or the settings are wrong. Raises TemporaryError if the catalog
        or the store does not answer.
        """
        if table.catalog is None:
            file = self._hadoop.metadata_file(table.location, storage)
        else:
            name, identifier = named_in_catalog(table.location)
            file = self._answer(name, table.catalog, storage, lambda catalog: catalog.metadata_file(identifier))
        numbered = table.catalog is None or isinstance(table.catalog, HadoopCatalog)
        return Pointer(token=f"{file}{_written_at(file, storage)}" if numbered else file, metadata_file=file)

    def tables(self, name: str, settings: Catalog, storage: Storage) -> Listing:
        """Return the identifiers of all tables of a catalog. Raises the same errors as `of`."""
        return self._answer(name, settings, storage, lambda catalog: catalog.tables())

    def vended(self, table: Table, storage: Storage, last_answer: Vended | None) -> Vended:
        """Return the credentials that a REST catalog hands out for a table's files. Raises the same errors as `of`."""
        name, identifier = named_in_catalog(table.location)
        return self._answer(
            name, table.catalog, storage, lambda catalog: cast("RestServer", catalog).vended(identifier, last_answer)
        )

    def _answer(self, name: str, settings: Catalog, storage: Storage, ask: Callable[[OpenCatalog], _T]) -> _T:
        if isinstance(settings, HadoopCatalog):  # a folder: the time-outs and connections of its store apply
            return ask(_HadoopWarehouse(name, settings, storage, self._hadoop))
        key = (name, settings.model_dump_json())
        with self._opening:
            if key not in self._known:
                self._known[key] = _Known(name, settings)
            catalog = self._known[key]
        return catalog.asked(ask)


def _written_at(file: str, storage: Storage) -> str:
    """Return when a numbered metadata file was written. A table that is dropped and created again numbers its files
    from 1 again. Only disks tell the time. Object stores are not asked, because no Hadoop catalog should be on one.
    """
    try:
        at = storage.changed_at(file)
    except FileNotFoundError:
        return ""
    return "" if at is None else f"@{at.timestamp()}"


class _Known:
    """One catalog. The first request opens it. If the catalog refuses the login, because tokens expire, it is opened
    again.
    """

    def __init__(self, name: str, settings: Catalog) -> None:
        self._name = name
        self._settings = settings
        self._places = threading.BoundedSemaphore(settings.requests_at_once)
        self._etags: Etags = {}
        self._opening = threading.Lock()
        self._openings = 0
        self._failed: LakewardenError | None = None
        self._opened: OpenCatalog | None = None

    def asked(self, ask: Callable[[OpenCatalog], _T]) -> _T:
        if not self._places.acquire(timeout=self._settings.timeout.total_seconds()):
            most = self._settings.requests_at_once
            raise TemporaryError(f"the catalog {self._name} is slow: of its {most} requests at once none ended in time")
        try:
            opened = self._open(instead_of=None)
            try:
                return ask(opened)
            except LoginRefusedError:
                return ask(self._open(instead_of=opened))
        finally:
            self._places.release()

    def _open(self, *, instead_of: OpenCatalog | None) -> OpenCatalog:
        """Return the opened catalog, but not the one that failed (`instead_of`). One thread opens it. The other threads
        take its result.
        """
        before = self._openings
        with self._opening:
            if self._opened is not None and self._opened is not instead_of:
                return self._opened
            if self._openings != before and self._failed is not None:
                raise type(self._failed)(str(self._failed))
            self._openings += 1
            self._opened = self._failed = None
            try:
                self._opened = _opened(self._name, self._settings, self._etags)
            except LakewardenError as error:  # those who waited for it are told, and the next request tries again
                self._failed = error
                raise
            return self._opened


class _HadoopWarehouse:
    """A Hadoop catalog: folders of namespaces in a folder."""

    def __init__(self, name: str, settings: HadoopCatalog, storage: Storage, tables: HadoopTables) -> None:
        self._name = name
        self._warehouse = canonical_location(settings.warehouse)
        self._storage = storage
        self._tables = tables

    def metadata_file(self, identifier: str) -> str:
        folder = f"{self._warehouse}/{identifier.replace('.', '/')}"
        return self._tables.metadata_file(folder, self._storage)

    def tables(self) -> Listing:
        try:
            return Listing(tables=sorted(self._tables.below(self._warehouse, self._storage)))
        except FileNotFoundError:
            raise PermanentError(f"the catalog {self._name} has no folder {self._warehouse}") from None


def _opened(name: str, settings: Catalog, etags: Etags) -> OpenCatalog:
    """Open a catalog. `etags` outlive it. The modules are imported here, because most daemons have one kind of
    catalog.
    """
    match settings:
        case JdbcCatalog():
            from lakewarden.planners.formats.iceberg.catalogs.jdbc import JdbcRows  # noqa: PLC0415

            return JdbcRows(name, settings)
        case RestCatalog():
            _require(name, "pyiceberg")
            from lakewarden.planners.formats.iceberg.catalogs.rest import RestServer  # noqa: PLC0415

            return RestServer(name, settings, etags)
        case HiveCatalog():
            _require(name, "pyiceberg", "thrift")
            from lakewarden.planners.formats.iceberg.catalogs.hive import Metastore  # noqa: PLC0415

            return Metastore(name, settings)
        case HadoopCatalog():
            raise LakewardenError("a Hadoop catalog is not opened: it is a folder")
        case _:
            assert_never(settings)


def _require(name: str, *packages: str) -> None:
    missing = next((package for package in packages if importlib.util.find_spec(package) is None), None)
    if missing is not None:
        raise PermanentError(f"the catalog {name} needs {missing}: {installing('iceberg')}")
