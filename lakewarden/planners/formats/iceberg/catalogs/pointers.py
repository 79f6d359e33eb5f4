"""Where a table's newest metadata file is: one question to whoever knows the table, asked without a JVM."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, assert_never

from lakewarden.planners.formats.iceberg.catalogs.gate import ClosedError, Gate, RefusedError, TableRefusedError
from lakewarden.planners.formats.iceberg.catalogs.hadoop import HadoopTables
from lakewarden.planners.formats.iceberg.catalogs.settings import (
    Catalog,
    HadoopCatalog,
    HiveCatalog,
    JdbcCatalog,
    RestCatalog,
)
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing, Storage
from lakewarden.planners.storage.locations import canonical_location, named_in_catalog

_T = TypeVar("_T")

Etags = dict[str, tuple[str, str]]
"""What a server called the metadata of a table when it was last asked, and where that was."""

_LISTING = ""
"""Where a table is named: what is asked is about all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pointer:
    """What a table is at one moment: its metadata file, as its catalog spells it, and a text that changes with it."""

    token: str
    metadata_file: str


class OpenCatalog(Protocol):
    """A catalog that was opened. For any thread."""

    @property
    def was_let_in(self) -> bool:
        """Whether it was asked when it was opened, and let us in."""
        ...

    def metadata_file(self, identifier: str) -> str:
        """Return where the newest metadata file of `namespace.table` is.

        Raises TemporaryError where the catalog gives no answer, RefusedError, and PermanentError where it knows no
        such table.
        """
        ...

    def tables(self) -> Listing:
        """Return the identifiers of all its tables, in order. Raises what `metadata_file` raises."""
        ...

    def hands_out(self, identifier: str) -> str | None:
        """Return by what means it would let us at a table's files; None where it knows of none."""
        ...


class Pointers:
    """Asks catalogs, each of which is opened once and kept, and file systems. For any thread.

    A table in trouble rests by itself; the tables of a catalog that is down are refused without being asked for, so
    that those who read the tables of others do not wait for it (`gate.py`).
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._hadoop = HadoopTables()
        self._known: dict[tuple[str, str], _Known] = {}
        self._opening = threading.Lock()

    def of(self, table: Table, storage: Storage) -> Pointer:
        """Return the table's pointer: with one request, or two for a Hadoop table.

        Raises PermanentError where there is no such table or the settings are wrong, TemporaryError where its catalog
        or its store does not answer.
        """
        if table.catalog is None:
            file = self._hadoop.metadata_file(table.location, storage)
        else:
            name, identifier = named_in_catalog(table.location)
            file = self._asked(
                name, table.catalog, storage, lambda catalog: catalog.metadata_file(identifier), table=identifier
            )
        numbered = table.catalog is None or isinstance(table.catalog, HadoopCatalog)
        return Pointer(token=f"{file}{_written_at(file, storage)}" if numbered else file, metadata_file=file)

    def tables(self, name: str, settings: Catalog, storage: Storage) -> Listing:
        """Return the identifiers of all tables of a catalog. Raises what `of` raises."""
        return self._asked(name, settings, storage, lambda catalog: catalog.tables())

    def hands_out(self, table: Table, storage: Storage) -> str | None:
        """Return by what means the table's catalog would let us at its files, which we do not make use of: for people.
        None where it has none, or cannot be asked.
        """
        if not isinstance(table.catalog, RestCatalog):
            return None
        name, identifier = named_in_catalog(table.location)
        try:
            return self._asked(
                name, table.catalog, storage, lambda catalog: catalog.hands_out(identifier), table=identifier
            )
        except LakewardenError:
            return None

    def _asked(
        self,
        name: str,
        settings: Catalog,
        storage: Storage,
        ask: Callable[[OpenCatalog], _T],
        *,
        table: str | None = None,
    ) -> _T:
        if isinstance(settings, HadoopCatalog):  # a folder: its store has its own time-outs, and its own connections
            return ask(_HadoopWarehouse(name, settings, storage, self._hadoop))
        key = (name, settings.model_dump_json())
        with self._opening:
            if key not in self._known:
                self._known[key] = _Known(name, settings, self._monotonic)
            known = self._known[key]
        return known.asked(ask, table=table)


def _written_at(file: str, storage: Storage) -> str:
    """Return when a numbered metadata file was written, as far as a disk tells: a table that is dropped and made again
    numbers its files from one again. Object stores, which no Hadoop catalog should be on, are not asked.
    """
    try:
        at = storage.changed_at(file)
    except FileNotFoundError:
        return ""
    return "" if at is None else f"@{at.timestamp()}"


class _Known:
    """One catalog, opened by whoever asks it first; and anew when it turned us away, as it does when tokens expire."""

    def __init__(self, name: str, settings: Catalog, monotonic: Callable[[], float]) -> None:
        self._name = name
        self._settings = settings
        self._gate = Gate(
            f"the catalog {name}",
            monotonic,
            at_most=settings.requests_at_once,
            timeout_seconds=settings.timeout.total_seconds(),
        )
        self._etags: Etags = {}
        self._opening = threading.Lock()
        self._openings = 0
        self._failed: LakewardenError | None = None
        self._opened: OpenCatalog | None = None

    def asked(self, ask: Callable[[OpenCatalog], _T], *, table: str | None) -> _T:
        with self._gate.passed(table or _LISTING, timed=table is not None):
            opened = self._open(instead_of=None)
            try:
                return ask(opened)
            except RefusedError:
                opened = self._open(instead_of=opened)
            try:
                return ask(opened)
            except RefusedError as refused:
                if not opened.was_let_in:
                    raise
                raise TableRefusedError(str(refused)) from refused  # although it has let us in just now

    def _open(self, *, instead_of: OpenCatalog | None) -> OpenCatalog:
        """Return the opened catalog, if need be another one. One thread opens it, and the others take what it found."""
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
            except TemporaryError as trouble:
                self._failed = ClosedError(str(trouble))
                raise self._failed from trouble
            except PermanentError as wrong:  # the secret may have been replaced by the next time
                self._failed = wrong
                raise
            return self._opened


class _HadoopWarehouse:
    """A Hadoop catalog: folders of namespaces in a folder."""

    was_let_in = False

    def __init__(self, name: str, settings: HadoopCatalog, storage: Storage, tables: HadoopTables) -> None:
        self._name = name
        self._warehouse = canonical_location(settings.warehouse)
        self._storage = storage
        self._tables = tables

    def metadata_file(self, identifier: str) -> str:
        folder = f"{self._warehouse}/{identifier.replace('.', '/')}"
        return self._tables.metadata_file(folder, self._storage)

    def hands_out(self, identifier: str) -> str | None:
        return None

    def tables(self) -> Listing:
        try:
            return Listing(tables=sorted(self._tables.below(self._warehouse, self._storage)))
        except FileNotFoundError:
            raise PermanentError(f"the catalog {self._name} has no folder {self._warehouse}") from None


def _opened(name: str, settings: Catalog, etags: Etags) -> OpenCatalog:
    """Open a catalog; `etags` outlive it. What it needs is imported here: most daemons have one kind of catalog."""
    match settings:
        case JdbcCatalog():
            from lakewarden.planners.formats.iceberg.catalogs.jdbc import JdbcRows  # noqa: PLC0415

            return JdbcRows(name, settings)
        case RestCatalog():
            _require_pyiceberg(name)
            from lakewarden.planners.formats.iceberg.catalogs.rest import RestServer  # noqa: PLC0415

            return RestServer(name, settings, etags)
        case HiveCatalog():
            _require_pyiceberg(name)
            from lakewarden.planners.formats.iceberg.catalogs.hive import Metastore  # noqa: PLC0415

            return Metastore(name, settings)
        case HadoopCatalog():
            raise LakewardenError("a Hadoop catalog is not opened: it is a folder")
        case _:
            assert_never(settings)


def _require_pyiceberg(name: str) -> None:
    if importlib.util.find_spec("pyiceberg") is None:
        raise PermanentError(f"the catalog {name} needs pyiceberg: pip install 'lakewarden[iceberg]'")
