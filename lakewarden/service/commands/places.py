"""What places stand for: the tables below a path, or in a catalog."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TextIO
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.finding_tables import format_at, signs, tables_below, why_not
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import Storages, canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, is_local, named_in_catalog
from lakewarden.service.config.layers.patterns import ConfiguredCatalog
from lakewarden.service.config.loading import Config

_KINDS = {"thrift": "hive", "http": "rest", "https": "rest"}
"""The schemes of catalogs that can be asked without a configuration."""

_DATABASE = "jdbc:"
"""How the address of a catalog in a database begins."""

_MOST_REQUESTS = 20_000
_AT_ONCE = 8
_NAME = "name"
"""The part of a query with the name of the catalog. A database may hold several catalogs, each by its name."""

_AD_HOC = "report"
"""The name of a catalog without a configuration."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadLine:
    """A table or a place that could not be read, with the reason."""

    location: str
    format: str | None
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSettings:
    """How places are searched: the stores, the catalogs of the configuration, the patterns to leave out, and a format
    for tables that nothing recognises.
    """

    storages: Storages
    catalogs: Mapping[str, ConfiguredCatalog]
    exclude: Sequence[str] = ()
    format_name: str | None = None


def tables_of(place: str, settings: SearchSettings) -> Iterator[Table | UnreadLine]:
    """Yield the tables of one argument, and what could not be searched.

    Raises PermanentError if the argument means nothing, and TemporaryError if a store or a catalog does not answer.
    """
    scheme = place.partition("://")[0] if "://" in place else ""
    if scheme == "catalog":
        yield from _in_named_catalog(place, settings)
    elif kind_of(place) is not None:
        yield from _in_catalogs(place, catalogs_at(place), settings)
    else:
        yield from _below(place, settings)


def table_at(place: str, config: Config | None, *, format_name: str | None) -> Table:
    """Return the one table at a location.

    Raises PermanentError if there is none, and TemporaryError if a store does not answer.
    """
    if is_in_catalog(place):
        name, identifier = named_in_catalog(place)
        catalog = None if config is None else config.catalogs.get(name)
        if catalog is None:
            raise PermanentError(f"there is no catalog {shown(name)}: name a configuration that has it, with --config")
        return _table_of(identifier, catalog, place, catalog.format)
    location = canonical_location(place if ":/" in place else os.path.abspath(place))  # noqa: PTH100 - may be a URI
    storage = (Storages() if config is None else Storages(config.settings.storage, roots=config.roots)).of(location)
    if format_name is not None:
        _require_format(format_name)
    table_format = format_name or format_at(location, storage, signs())
    if is_local(location) and not os.path.lexists(location):
        raise PermanentError(f"nothing found at {location}")
    if table_format is None:
        raise PermanentError(
            f"{location} is not a table: no file of {', '.join(signs())} tells that it is one; if it is a "
            "folder of data "
            "files, add --format directory"
        )
    return Table(id=TableId(location), format=table_format, location=location)


def kind_of(place: str) -> str | None:
    """Return the kind of catalog that answers at an address. None if it is the address of no catalog."""
    if place.startswith(_DATABASE):
        return "jdbc"
    return _KINDS.get(place.partition("://")[0]) if "://" in place else None


def _below(place: str, settings: SearchSettings) -> Iterator[Table | UnreadLine]:
    text = place if ":/" in place else os.path.abspath(place)  # noqa: PTH100 - may hold wildcards
    if settings.format_name is not None:
        _require_format(settings.format_name)
        location = canonical_location(text)
        yield Table(id=TableId(location), format=settings.format_name, location=location)
        return
    storage = settings.storages.of(text if "://" in text else "/")
    listing = tables_below(text, storage, signs(), exclude=settings.exclude, most=_MOST_REQUESTS)
    for location, format_name in listing.tables.items():
        yield Table(id=TableId(location), format=format_name, location=location)
    for location, why in listing.unlisted.items():
        yield UnreadLine(location=location, format=None, reason=why)


def _require_format(name: str) -> None:
    if name not in FORMATS:
        raise PermanentError(f"{shown(name)} is not a format: use one of {', '.join(FORMATS)}")


def name_in(place: str) -> str | None:
    """Return the name of the catalog that an address says, if it does."""
    return dict(parse_qsl(place.partition("?")[2])).get(_NAME)


def _in_named_catalog(place: str, settings: SearchSettings) -> Iterator[Table | UnreadLine]:
    name, _, pattern = place.removeprefix("catalog://").partition("/")
    catalog = settings.catalogs.get(name)
    if catalog is None:
        raise PermanentError(f"there is no catalog {shown(name)}: name a configuration that has it, with --config")
    yield from _in_catalogs(place, [catalog], settings, pattern=pattern or "*")


def catalogs_at(place: str) -> list[ConfiguredCatalog]:
    """Return the catalogs of each format that has this kind of catalog, at an address. A query is further settings:
    `http://host:8181?warehouse=lake`. Raises PermanentError if it is the address of no catalog that can be asked.
    """
    uri, _, query = place.partition("?")
    fields = {"type": kind_of(place) or "", "uri": uri, **dict(parse_qsl(query))}
    name = fields.pop(_NAME, _AD_HOC)
    entries = []
    refusals = []
    for table_format in FORMATS.values():
        if table_format.catalog_settings is None:
            continue
        try:
            settings = TypeAdapter(table_format.catalog_settings).validate_python(fields)
        except ValidationError as wrong:
            refusals += [str(error["msg"]) for error in wrong.errors() if error["type"] != "union_tag_invalid"]
            continue
        entries.append(ConfiguredCatalog(name=name, format=table_format, settings=settings))
    if not entries:
        raise PermanentError(f"{shown(place)} is not a catalog that can be asked: {'; '.join(dict.fromkeys(refusals))}")
    return entries


def _in_catalogs(
    place: str, catalogs: Sequence[ConfiguredCatalog], settings: SearchSettings, *, pattern: str = "*"
) -> Iterator[Table | UnreadLine]:
    """Yield the tables of catalogs at one place. A format that has nothing there is left out, if another one has."""
    listed, failed = [], []
    for catalog in catalogs:
        storage = settings.storages.of(f"catalog://{catalog.name}/any")
        try:
            listed.append((catalog, catalog.format.tables_in(catalog.name, catalog.settings, storage)))
        except LakewardenError as error:
            failed.append((catalog, error))
    for catalog, failure in failed:
        if not listed or not isinstance(failure, PermanentError):
            yield UnreadLine(location=place, format=catalog.format.name, reason=str(failure))
    for catalog, listing in listed:
        for identifier in sorted(listing.tables):
            left_out = any(fnmatchcase(identifier, glob) for glob in settings.exclude)
            if fnmatchcase(identifier, pattern) and not left_out:
                yield _table_of(identifier, catalog, listing.locations.get(identifier), catalog.format)
        for name, why in {**listing.unlisted, **listing.refused}.items():
            yield UnreadLine(location=f"{place} {name}".rstrip(), format=catalog.format.name, reason=why)


def _table_of(identifier: str, catalog: ConfiguredCatalog, location: str | None, table_format: TableFormat) -> Table:
    """Return a table that a catalog knows. If the catalog told its location, the catalog is not asked again."""
    where = location or f"catalog://{catalog.name}/{identifier}"
    settings = catalog.settings if is_in_catalog(where) else None
    return table_format.as_found(
        Table(id=TableId(where), format=table_format.name, location=where, catalog=settings), identifier
    )


def unopened(tables: Iterable[Table]) -> Mapping[str, str]:
    """Return by location why tables cannot be opened by their paths. The tables of catalogs can."""
    storages = Storages()

    def ask(table: Table) -> str | None:
        try:
            return why_not(table.format, table.location, storages.of(table.location))
        except (LakewardenError, OSError):
            return None

    by_path = [table for table in tables if signs()[table.format].by_path and not is_in_catalog(table.location)]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        reasons = threads.map(ask, by_path)
        return {table.location: why for table, why in zip(by_path, reasons, strict=True) if why is not None}


def found_at(place: str, *, exclude: Sequence[str] = (), err: TextIO) -> tuple[Table, ...]:
    """Return the tables of a place, each once, and print what could not be searched.

    Raises PermanentError if the place means nothing. Raises TemporaryError if nothing of it could be searched, as when
    a catalog does not answer.
    """
    tables: dict[str, Table] = {}
    unread: dict[UnreadLine, None] = {}
    for entry in tables_of(place, SearchSettings(storages=Storages(), catalogs={}, exclude=exclude)):
        if isinstance(entry, Table):
            tables.setdefault(entry.location, entry)
        else:
            unread[entry] = None
    not_searched = _not_searched(unread)
    if unread and not tables:
        raise TemporaryError("\n".join(not_searched))
    for line in not_searched:
        print(line, file=err)
    return tuple(tables.values())


def _not_searched(unread: Iterable[UnreadLine]) -> list[str]:
    """Return a line for each place. A catalog is asked for the tables of each format, and fails for all of them."""
    return list(dict.fromkeys(printable(f"not searched: {line.location}: {line.reason}") for line in unread))
