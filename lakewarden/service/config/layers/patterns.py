"""Patterns of tables: which tables an entry with `match` means, and what such a table becomes. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.path_pattern import PathPattern
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.service.config.layers.levels import Level
from lakewarden.service.config.layers.templates import dotted, legal_id, names_of, with_names
from lakewarden.service.config.settings import CareSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ConfiguredCatalog:
    """A catalog. Its settings have the type that its format declares."""

    name: str
    format: TableFormat
    settings: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """What an entry with `match` says: which tables it means, and its level of settings.

    `paths` and `not_paths` are its patterns of paths, as they are written and with the links of their roots followed.
    """

    match: str
    exclude: tuple[str, ...] = ()
    share: float = 100
    level: Level
    format: str | None = None
    paths: tuple[PathPattern, ...] = ()
    not_paths: tuple[PathPattern, ...] = ()

    @property
    def catalog(self) -> str | None:
        """Return the name of the catalog with its tables. None for a pattern of paths."""
        return named_in_catalog(self.match)[0] if is_in_catalog(self.match) else None

    def fits(self, table: str, location: str) -> bool:
        """Return whether the pattern means the table with this id at this location.

        A location in a catalog is compared with patterns of the same catalog, and a path with patterns of paths.
        """
        if self.catalog is None:
            fit = any(path.fits(location) for path in self.paths)
            out = any(path.fits(location) for path in self.not_paths)
        elif is_in_catalog(location) and named_in_catalog(location)[0] == self.catalog:
            name = named_in_catalog(location)[1]
            fit = fnmatchcase(name, named_in_catalog(self.match)[1] or "*")
            out = any(fnmatchcase(name, pattern) for pattern in self.exclude)
        else:
            return False
        return fit and not out and in_share(table, self.share)


def in_share(table: str, percent: float) -> bool:
    """Return whether a table belongs to a share of all tables. With a higher percentage, tables are only added.

    The share depends on the id of the table alone: on its SHA-256, as a number from 0 to 100.
    """
    drawn = int.from_bytes(hashlib.sha256(table.encode(errors="surrogatepass")).digest()[:8]) / 2**64 * 100
    return drawn < percent


def fitting(patterns: Sequence[Pattern], table: str, location: str) -> Pattern | None:
    """Return the first pattern that means the table."""
    return next((pattern for pattern in patterns if pattern.fits(table, location)), None)


@dataclass(frozen=True, kw_only=True, slots=True)
class Discover:
    """A pattern that tables are found by. `any_table` is such a table, without its id, its location and its names.

    `values` are its settings as the document has them, if names of the table stand in them. `path` means that
    the catalog is nothing but the pattern of paths.
    """

    catalog: ConfiguredCatalog
    pattern: Pattern
    every: timedelta
    any_table: Table
    by_path: bool = False
    values: Mapping[str, Any] | None = field(default=None)

    def id_of(self, identifier: str, location: str | None) -> TableId:
        """Return the id of a table: its name in the catalog, or its path, with dots and without illegal letters."""
        return legal_id(
            dotted(location) if self.by_path and location is not None else f"{self.catalog.name}.{identifier}"
        )

    def address_of(self, identifier: str, location: str | None) -> str:
        """Return the address that patterns are compared with."""
        return location if self.by_path and location is not None else f"catalog://{self.catalog.name}/{identifier}"

    def table(self, identifier: str, *, location: str | None = None) -> Table:
        """Return the table with the name `identifier` in the catalog. It is at `location`, or is found by its name.

        Raises PermanentError if its settings do not fit its name.
        """
        id_ = self.id_of(identifier, location)
        place = location or canonical_location(f"catalog://{self.catalog.name}/{identifier}")
        made = replace(self.any_table, id=id_, location=place)
        if self.values is not None:
            made = _named(
                made, self.values, names_of(id_, place, None if self.by_path else identifier), self.catalog.format
            )
        if self.by_path:
            identifier = ".".join(dotted(place).split(".")[-2:])
        return self.catalog.format.as_found(made, identifier)


def _named(table: Table, values: Mapping[str, Any], names: Mapping[str, str], table_format: TableFormat) -> Table:
    """Return a table with its names in its settings."""
    try:
        care = CareSettings.model_validate(with_names(values, names))
        options = TypeAdapter(table_format.table_options).validate_python(care.options)
        policies = {
            service: replace(
                policy,
                options=TypeAdapter(table_format.services[service]).validate_python(care.services[service].options),
            )
            for service, policy in table.policies.items()
        }
    except ValidationError as wrong:
        raise PermanentError(f"its name makes its settings wrong: {wrong.errors()[0]['msg']}") from wrong
    return replace(table, options=options, policies=policies, contact=care.contact, labels=dict(care.labels))
