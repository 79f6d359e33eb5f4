"""What the arguments of the report stand for: the tables below a path, or in a catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import parse_qsl

from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import Storages, canonical_location
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.surveying.finding import tables_below
from lakewarden.planners.surveying.registry import signs
from lakewarden.service.commands.report.lines import UnreadLine
from lakewarden.service.config.layers.patterns import ConfiguredCatalog

_KINDS = {"thrift": "hive", "http": "rest", "https": "rest"}
"""The schemes of catalogs that can be asked without a configuration."""

_DATABASE = "jdbc:"
"""How the address of a catalog in a database begins."""

_MOST_REQUESTS = 20_000
_NAME = "name"
"""The part of a query with the name of the catalog. A database may hold several catalogs, each by its name."""

_AD_HOC = "report"
"""The name of a catalog without a configuration."""


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
    found = tables_below(text, storage, signs(), exclude=settings.exclude, most=_MOST_REQUESTS)
    for location, format_name in found.tables.items():
        yield Table(id=TableId(location), format=format_name, location=location)
    for location, why in found.unlisted.items():
        yield UnreadLine(location=location, format=None, reason=why)


def _require_format(name: str) -> None:
    if name not in FORMATS:
        raise PermanentError(f"{shown(name)} is no format: it is one of {', '.join(FORMATS)}")


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
    asked = {"type": kind_of(place) or "", "uri": uri, **dict(parse_qsl(query))}
    name = asked.pop(_NAME, _AD_HOC)
    found = []
    refusals = []
    for one in FORMATS.values():
        if one.catalog_settings is None:
            continue
        try:
            settings = TypeAdapter(one.catalog_settings).validate_python(asked)
        except ValidationError as wrong:
            refusals += [str(error["msg"]) for error in wrong.errors() if error["type"] != "union_tag_invalid"]
            continue
        found.append(ConfiguredCatalog(name=name, format=one, settings=settings))
    if not found:
        raise PermanentError(f"{shown(place)} is no catalog that can be asked: {'; '.join(dict.fromkeys(refusals))}")
    return found


def _in_catalogs(
    place: str, catalogs: Sequence[ConfiguredCatalog], settings: SearchSettings, *, pattern: str = "*"
) -> Iterator[Table | UnreadLine]:
    for catalog in catalogs:
        storage = settings.storages.of(f"catalog://{catalog.name}/any")
        try:
            listing = catalog.format.tables_in(catalog.name, catalog.settings, storage)
        except LakewardenError as error:
            yield UnreadLine(location=place, format=catalog.format.name, reason=str(error))
            continue
        for identifier in sorted(listing.tables):
            left_out = any(fnmatchcase(identifier, one) for one in settings.exclude)
            if fnmatchcase(identifier, pattern) and not left_out:
                yield _known(identifier, catalog, listing.locations.get(identifier), catalog.format)
        for name, why in {**listing.unlisted, **listing.refused}.items():
            yield UnreadLine(location=f"{place} {name}".rstrip(), format=catalog.format.name, reason=why)


def _known(identifier: str, catalog: ConfiguredCatalog, location: str | None, table_format: TableFormat) -> Table:
    """Return a table that a catalog knows. If the catalog told its location, the catalog is not asked again."""
    where = location or f"catalog://{catalog.name}/{identifier}"
    settings = catalog.settings if is_in_catalog(where) else None
    return Table(id=TableId(where), format=table_format.name, location=where, catalog=settings)
