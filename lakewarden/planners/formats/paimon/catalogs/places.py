"""Finds the folder of a table that is known by its name in a catalog, without a JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar, assert_never

from lakewarden.planners.formats.paimon.catalogs.settings import (
    AnyCatalog,
    FilesystemCatalog,
    HiveCatalog,
    JdbcCatalog,
    folder_in,
)
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Listing, Storage
from lakewarden.planners.storage.content import listed
from lakewarden.planners.storage.locations import canonical_location, is_in_catalog, named_in_catalog

if TYPE_CHECKING:
    from lakewarden.planners.formats.paimon.catalogs.rows import PaimonRows

_T = TypeVar("_T")

KNOWN_FOR_SECONDS = 30.0
"""The time for which a folder is not asked for again. If a table is renamed meanwhile, its old folder has no table, or
another one. Both are noticed."""

DOWN_FOR_SECONDS = 5.0
"""The time for which a catalog that gave no answer is not asked again."""

_MOST = 100_000
_DATABASE = ".db"
_SCHEMAS = "schema"


class Places:
    """Asks catalogs for the folders of tables, and remembers them for a moment. Any thread may use it."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[tuple[str, str], tuple[str, float]] = {}
        self._down: dict[str, tuple[TemporaryError, float]] = {}
        self._rows: dict[str, PaimonRows] = {}
        self._lock = threading.Lock()

    def placed(self, table: Table) -> Table:
        """Return the table with its folder as its location. A table that is named by its folder is returned as it is.

        Raises PermanentError if its catalog has no such table, and TemporaryError if the catalog does not answer.
        """
        if not is_in_catalog(table.location):
            return table
        name, identifier = named_in_catalog(table.location)
        return replace(table, location=self._place(name, _required(name, table.catalog), identifier))

    def forget(self, table: Table) -> None:
        """Ask the catalog again the next time."""
        if is_in_catalog(table.location):
            name, identifier = named_in_catalog(table.location)
            with self._lock:
                self._known.pop((_key(name, _required(name, table.catalog)), identifier), None)

    def tables(self, name: str, catalog: AnyCatalog, storage: Storage) -> Listing:
        """Return the names of all tables of a catalog. Raises the same errors as `placed`."""
        match catalog:
            case FilesystemCatalog():
                return _in_warehouse(name, canonical_location(catalog.warehouse), storage)
            case HiveCatalog():
                from lakewarden.planners.formats.paimon.catalogs.metastore import tables_known  # noqa: PLC0415 - few need it

                return tables_known(name, catalog)
            case JdbcCatalog():
                return self._of_database(name, catalog, lambda rows: rows.tables())
            case _:
                assert_never(catalog)

    def _place(self, name: str, catalog: AnyCatalog, identifier: str) -> str:
        if isinstance(catalog, FilesystemCatalog):
            return folder_in(catalog.warehouse, identifier)
        key, now = _key(name, catalog), self._monotonic()
        with self._lock:
            place, until = self._known.get((key, identifier), ("", 0.0))
            error, down_until = self._down.get(key, (None, 0.0))
        if place and now < until:
            return place
        if error is not None and now < down_until:
            raise TemporaryError(str(error))
        try:
            place = self._place_in_catalog(name, catalog, identifier)
        except TemporaryError as failed:
            with self._lock:
                self._down[key] = failed, self._monotonic() + DOWN_FOR_SECONDS
            raise
        with self._lock:
            self._down.pop(key, None)
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key, identifier] = place, now + KNOWN_FOR_SECONDS
        return place

    def _place_in_catalog(self, name: str, catalog: HiveCatalog | JdbcCatalog, identifier: str) -> str:
        match catalog:
            case HiveCatalog():
                from lakewarden.planners.formats.paimon.catalogs.metastore import place_known  # noqa: PLC0415 - few need it

                return place_known(name, catalog, identifier)
            case JdbcCatalog():
                return self._of_database(name, catalog, lambda rows: rows.place(identifier))
            case _:
                assert_never(catalog)

    def _of_database(self, name: str, catalog: JdbcCatalog, ask: Callable[[PaimonRows], _T]) -> _T:
        """Ask the database. Its engine is made anew after an error, because a secret may have been replaced."""
        from lakewarden.planners.formats.paimon.catalogs.rows import PaimonRows  # noqa: PLC0415 - few need it

        key = _key(name, catalog)
        with self._lock:
            rows = self._rows.get(key)
            if rows is None:
                rows = self._rows[key] = PaimonRows(name, catalog)
        try:
            return ask(rows)
        except LakewardenError:
            with self._lock:
                self._rows.pop(key, None)
            raise


def _required(name: str, catalog: Any) -> AnyCatalog:
    if not isinstance(catalog, FilesystemCatalog | HiveCatalog | JdbcCatalog):
        raise PermanentError(f"there is no catalog {name} of Paimon tables")
    return catalog


def _key(name: str, catalog: AnyCatalog) -> str:
    return f"{name} {catalog.model_dump_json()}"


def _in_warehouse(name: str, warehouse: str, storage: Storage) -> Listing:
    """Return the tables in a warehouse: the folders in those of databases that have schemas
    (`AbstractCatalog.listTablesInFileSystem`). A database that cannot be listed is reported.
    """
    tables: list[str] = []
    unlisted: dict[str, str] = {}
    refused: dict[str, str] = {}
    for database in _databases(name, warehouse, storage):
        try:
            for table in _tables(f"{warehouse}/{database}{_DATABASE}", storage):
                identifier = f"{database}.{table}"
                try:
                    folder_in(warehouse, identifier)
                except PermanentError as wrong:
                    refused[identifier] = str(wrong)
                else:
                    tables.append(identifier)
        except TemporaryError as error:
            unlisted[database] = str(error)
    return Listing(tables=sorted(tables), unlisted=unlisted, refused=refused)


def _databases(name: str, warehouse: str, storage: Storage) -> list[str]:
    try:
        entries = storage.listing(warehouse)
    except FileNotFoundError:
        raise PermanentError(f"the catalog {name} has no folder {warehouse}") from None
    if not entries:
        raise TemporaryError(f"{warehouse} of the catalog {name} has no entry: is it mounted?")
    names = (
        entry.name.removesuffix(_DATABASE) for entry in entries if entry.is_folder and entry.name.endswith(_DATABASE)
    )
    return sorted(name for name in names if name and "." not in name)


def _tables(folder: str, storage: Storage) -> Iterator[str]:
    """Yield the names of the tables of a database. One that is dropped meanwhile is left out."""
    for entry in listed(folder, storage):
        if not entry.is_folder or entry.name.startswith((".", "_")):
            continue
        below = listed(f"{folder}/{entry.name}", storage)
        if any(entry.is_folder and entry.name == _SCHEMAS for entry in below):
            yield entry.name
