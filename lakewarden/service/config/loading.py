"""The configuration file becomes a Configuration and the registered tables; wrong files are refused as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import TypeAdapter, ValidationError

from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.planners.triggers import NumCommits, NumRewrites, TimeElapsed, Trigger
from lakewarden.service.config import problems
from lakewarden.service.config.document import read_document
from lakewarden.service.config.settings import (
    BudgetSettings,
    CareSettings,
    CatalogEntry,
    Configuration,
    DiscoverySettings,
    ServiceSettings,
    TableSettings,
)

_TRIGGERS: Mapping[Service, Trigger] = {
    Service.COMPACTION: NumCommits(at_least=5),
    Service.LOG_COMPACTION: NumCommits(at_least=5),
    Service.CLUSTERING: NumCommits(at_least=4),
    Service.ARCHIVE: NumCommits(at_least=10),
    Service.TTL: TimeElapsed(at_least=timedelta(days=1)),
    Service.ORPHANS: TimeElapsed(at_least=timedelta(days=1)),
}
_OTHERWISE: Trigger = NumCommits(at_least=1)
_ANY = "any.table"
_AFTER_A_REWRITE: Trigger = NumRewrites(at_least=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """A catalog: its settings are of the type that its format declares."""

    name: str
    format: TableFormat
    settings: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Discover:
    """Where tables are found by themselves. `any_table` is what each of them is, but for its id and its location.

    `tables` and `exclude` are patterns of `<namespace>.<table>`.
    """

    catalog: Catalog
    tables: str
    exclude: tuple[str, ...]
    every: timedelta
    any_table: Table

    def table(self, identifier: str) -> Table:
        """Return the table that the catalog knows as `identifier`."""
        location = canonical_location(f"catalog://{self.catalog.name}/{identifier}")
        return replace(self.any_table, id=TableId(f"{self.catalog.name}.{identifier}"), location=location)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A configuration that was found right, the tables it registers, and where more of them are found."""

    settings: Configuration
    tables: tuple[Table, ...]
    catalogs: Mapping[str, Catalog]
    discover: tuple[Discover, ...]
    data_dir: Path


def load(path: Path) -> Config:
    """Read, check and assemble a configuration file.

    Raises PermanentError with every problem found, one line each, named by the path of its key.
    """
    document = read_document(path)
    settings, found = _validated(document)
    if settings is None:
        raise _refused(path, found)
    assembly = _Assembly(settings)
    tables, discover = assembly.tables(), assembly.discover()
    assembly.check_ports()
    found += assembly.problems
    if found:
        raise _refused(path, found)
    data_dir = (path.parent / settings.daemon.data_dir).absolute()
    return Config(settings=settings, tables=tables, catalogs=assembly.catalogs, discover=discover, data_dir=data_dir)


def _validated(document: Mapping[str, Any]) -> tuple[Configuration | None, list[str]]:
    """Return the settings and what is wrong with them: with something wrong, the settings without it, if there are."""
    try:
        return Configuration.model_validate(document), []
    except ValidationError as wrong:
        found = problems.problems_of(wrong, Configuration, raw=document)
        rest = problems.without_problems(wrong, document)
    try:
        return Configuration.model_validate(rest), found
    except ValidationError:
        return None, found


def _refused(path: Path, found: list[str]) -> PermanentError:
    return PermanentError("\n".join(f"{path}: {problem}" for problem in found))


class _Assembly:
    """Puts the tables together, gathering every problem on the way."""

    def __init__(self, settings: Configuration) -> None:
        self._settings = settings
        self._ids: dict[str, str] = {}
        self._locations: dict[str, str] = {}
        self.problems: list[str] = []
        made = {name: self._catalog(name, entry) for name, entry in settings.catalogs.items()}
        self.catalogs = {name: catalog for name, catalog in made.items() if catalog is not None}

    def tables(self) -> tuple[Table, ...]:
        """Return the tables that could be put together."""
        made = [self._table(number, table) for number, table in enumerate(self._settings.tables)]
        return tuple(table for table in made if table is not None)

    def discover(self) -> tuple[Discover, ...]:
        """Return where more tables are found, as far as it could be put together."""
        made = [self._discover(number, discovery) for number, discovery in enumerate(self._settings.discover)]
        return tuple(source for source in made if source is not None)

    def check_ports(self) -> None:
        """Find the API and the management server on one port."""
        api, management = self._settings.api, self._settings.management
        if api.port == management.port:
            self._problem(
                ("management", "port"), f"{management.port} is the api.port too: probes need a port of their own"
            )

    def _catalog(self, name: str, entry: CatalogEntry) -> Catalog | None:
        at: problems.Path = ("catalogs", name)
        table_format = self._format(entry.format, at)
        if table_format is None:
            return None
        if table_format.catalog_settings is None:
            able = ", ".join(one.name for one in FORMATS.values() if one.catalog_settings is not None)
            self._problem((*at, "format"), f"{entry.format} tables are found by their paths; catalogs have {able}")
            return None
        settings = self._typed(table_format.catalog_settings, entry.settings, at)
        return None if settings is None else Catalog(name=name, format=table_format, settings=settings)

    def _table(self, number: int, table: TableSettings) -> Table | None:
        at: problems.Path = ("tables", number)
        self._once(self._ids, table.id, (*at, "id"), f"the id {table.id}")
        table_format = self._format(table.format, at)
        if table_format is None:
            return None
        location = self._location(table, at)
        return self._looked_after(table, table_format, location, at, called=table.id)

    def _discover(self, number: int, discovery: DiscoverySettings) -> Discover | None:
        """Return where tables are found, and what each of them will be, but for its name."""
        at: problems.Path = ("discover", number)
        catalog = self._known_catalog(discovery.catalog, None, (*at, "catalog"))
        if catalog is None:
            return None
        location = canonical_location(f"catalog://{catalog.name}/{_ANY}")
        any_table = self._looked_after(discovery, catalog.format, location, at, called=f"{catalog.name}.{_ANY}")
        if any_table is None:
            return None
        return Discover(
            catalog=catalog,
            tables=discovery.tables,
            exclude=discovery.exclude,
            every=discovery.every,
            any_table=any_table,
        )

    def _looked_after(
        self, care: CareSettings, table_format: TableFormat, location: str | None, at: problems.Path, *, called: str
    ) -> Table | None:
        """Return a table as it is looked after; None where it is nowhere, or nobody would serve it."""
        defaults = self._settings.defaults
        mode = care.mode or defaults.mode
        profile_name = care.spark or defaults.spark
        profile = self._profile(profile_name, table_format, mode, (*at, "spark"))
        options = self._typed(table_format.table_options, care.options, (*at, "options"))
        policies = self._policies(care, table_format, at)
        catalog = None
        if location is not None and is_in_catalog(location):
            name, _ = named_in_catalog(location)
            catalog = self._known_catalog(name, table_format, (*at, "path"))
            location = None if catalog is None else location
        if location is None or profile is None:
            return None
        made = Table(
            id=TableId(called),
            format=table_format.name,
            location=location,
            catalog=None if catalog is None else catalog.settings,
            zone=ZoneInfo(profile.timezone),
            mode=mode,
            poll=care.poll or defaults.poll,
            spark=profile_name,
            options=options,
            policies=policies,
            budget=_budget(care.budget or defaults.budget),
        )
        for wrong in table_format.contradictions(made):
            self._problem((*at, *wrong.key.split(".")), wrong.reason)
        return made

    def _profile(self, name: str, table_format: TableFormat, mode: Mode, at: problems.Path) -> SparkProfile | None:
        """Return the profile whose workers are to serve a table; with a problem, where they could not act on it."""
        profile = self._settings.spark.get(name)
        if profile is None:
            self._problem(at, f"there is no spark profile {name!r}; there is {', '.join(self._settings.spark)}")
        elif mode is Mode.ACT and table_format.name not in profile.formats:
            lacking = f"the workers of {name!r} have no bundle of {table_format.name}"
            self._problem(at, f"{lacking}: add it to spark.{name}.formats")
        return profile

    def _format(self, name: str, at: problems.Path) -> TableFormat | None:
        found = FORMATS.get(name)
        if found is None:
            self._problem((*at, "format"), f"{name!r} is no format: it is one of {', '.join(FORMATS)}")
        return found

    def _known_catalog(self, name: str, table_format: TableFormat | None, at: problems.Path) -> Catalog | None:
        """Return the catalog of this name; None with a problem, where it can be none of the format's."""
        if name not in self._settings.catalogs:
            known = ", ".join(self._settings.catalogs)
            there = f"there is {known}" if known else "there are none"
            self._problem(at, f"there is no catalog {name!r} under catalogs; {there}")
            return None
        catalog = self.catalogs.get(name)
        if catalog is not None and table_format is not None and catalog.format is not table_format:
            theirs = catalog.format.name
            self._problem(at, f"the catalog {name!r} is one of {theirs} tables, not of {table_format.name} tables")
            return None
        return catalog

    def _location(self, table: TableSettings, at: problems.Path) -> str | None:
        try:
            location = canonical_location(table.path)
        except PermanentError as wrong:
            self._problem((*at, "path"), str(wrong))
            return None
        self._once(self._locations, location, (*at, "path"), f"the table at {location}")
        return location

    def _policies(self, table: CareSettings, table_format: TableFormat, at: problems.Path) -> Mapping[Service, Policy]:
        policies = {}
        for service, policy in table.services.items():
            here = (*at, "services", service.value)
            options_type = table_format.services.get(service)
            if options_type is None:
                able = ", ".join(table_format.services)
                self._problem(here, f"{service} is not supported on {table_format.name}; supported are {able}")
                continue
            policies[service] = _policy(service, policy, self._typed(options_type, policy.options, (*here, "options")))
            if not policy.asynchronous:
                self._check_follows_a_compaction(service, policy, table, here)
        return policies

    def _check_follows_a_compaction(
        self, service: Service, policy: ServiceSettings, table: CareSettings, at: problems.Path
    ) -> None:
        """Find `async: false` where it says nothing: it makes a clean follow the compactions of its table."""
        here = (*at, "async")
        if service is not Service.CLEAN:
            self._problem(here, f"only a clean can be told to run after each compaction, not {service}: remove it")
        elif policy.trigger is not None:
            self._problem(here, "false lets it run after each compaction, so it has no trigger of its own: remove one")
        elif Service.COMPACTION not in table.services:
            self._problem(here, "false lets it run after each compaction, but the table has no compaction policy")

    def _typed(self, model: Any, raw: Mapping[str, Any], at: problems.Path) -> Any:
        """Return what the format's type makes of its settings; None with problems, where they are wrong."""
        try:
            return TypeAdapter(model).validate_python(dict(raw))
        except ValidationError as wrong:
            self.problems += problems.problems_of(wrong, model, raw=raw, at=at)
            return None

    def _once(self, seen: dict[str, str], key: str, at: problems.Path, what: str) -> None:
        here = problems.named(at)
        if key in seen:
            self.problems.append(f"{here}: {what} is registered at {seen[key]} already")
        seen.setdefault(key, here)

    def _problem(self, at: problems.Path, sentence: str) -> None:
        self.problems.append(f"{problems.named(at)}: {sentence}")


def _policy(service: Service, settings: ServiceSettings, options: Settings | None) -> Policy:
    return Policy(
        trigger=_trigger(service, settings),
        options=options,
        schedule=settings.schedule,
        grace=settings.grace,
        window=None if settings.window is None else settings.window.window(),
        beside=settings.asynchronous,
    )


def _trigger(service: Service, settings: ServiceSettings) -> Trigger:
    if not settings.asynchronous:
        return _AFTER_A_REWRITE
    return settings.trigger if settings.trigger is not None else _TRIGGERS.get(service, _OTHERWISE)


def _budget(settings: BudgetSettings) -> DeletionBudget:
    return DeletionBudget(files=settings.files, percent=settings.percent, partitions=settings.partitions)
