"""Settings become the registered tables, the catalogs and where more tables are found, and every problem with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import BaseModel, TypeAdapter, ValidationError

from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import shown
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.storage.locations import is_in_catalog, named_in_catalog
from lakewarden.service.config import problems
from lakewarden.service.config.facts import Facts, place_of
from lakewarden.service.config.policies import budget_of, policy_of
from lakewarden.service.config.problems import KeyPath, Problem, Weight
from lakewarden.service.config.settings import (
    CareSettings,
    CatalogEntry,
    Configuration,
    DiscoverySettings,
    ServiceSettings,
    TableSettings,
)

_ANY = "any.table"


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """A catalog: its settings are of the type that its format declares."""

    name: str
    format: TableFormat
    settings: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Discover:
    """Where tables are found by themselves. `any_table` is what each of them is, but for its id, its location, and its
    names in the options.

    `tables` and `exclude` are patterns of `<namespace>.<table>`.
    """

    catalog: Catalog
    tables: str
    exclude: tuple[str, ...]
    every: timedelta
    any_table: Table

    def table(self, identifier: str, *, location: str | None = None) -> Table:
        """Return the table that the catalog knows as `identifier`, which is at `location`, if that is not its name.

        Raises PermanentError where it cannot be one.
        """
        namespace, _, name = identifier.rpartition(".")
        made = replace(
            self.any_table,
            id=TableId(f"{self.catalog.name}.{identifier}"),
            location=location or canonical_location(f"catalog://{self.catalog.name}/{identifier}"),
            options=_named(self.any_table.options, {"{namespace}": namespace, "{table}": name}),
        )
        return self.catalog.format.as_found(made, identifier)


def _named(options: Any, names: Mapping[str, str]) -> Any:
    """Return a table's options with its names in the place of the words that stand for them."""

    def filled(value: Any) -> Any:
        match value:
            case str():
                return re.sub("|".join(map(re.escape, names)), lambda word: names[word[0]], value)
            case dict():
                return {key: filled(one) for key, one in value.items()}
            case list() | tuple():
                return [filled(one) for one in value]
            case _:
                return value

    if not isinstance(options, BaseModel):
        return options
    try:
        return type(options).model_validate(filled(options.model_dump(by_alias=True, exclude_unset=True)))
    except ValidationError as wrong:
        raise PermanentError(f"its name makes its options wrong: {wrong.errors()[0]['msg']}") from wrong


class Assembly:
    """Puts the tables together, gathering every problem on the way."""

    def __init__(self, settings: Configuration) -> None:
        self._settings = settings
        self._ids: dict[str, str] = {}
        self.problems: list[Problem] = []
        made = {name: self._catalog(name, entry) for name, entry in settings.catalogs.items()}
        self.catalogs = {name: catalog for name, catalog in made.items() if catalog is not None}

    def addresses(self) -> Mapping[int, str]:
        """Return under which address each table is to be looked for, by its number: the folder of one in a catalog."""
        return {number: self._address(table) for number, table in enumerate(self._settings.tables)}

    def tables(self, facts: Facts) -> tuple[Table, ...]:
        """Return the tables that could be put together, at the places that `facts` tells of their addresses."""
        made = [self._table(number, table, facts) for number, table in enumerate(self._settings.tables)]
        return tuple(table for table in made if table is not None)

    def discover(self) -> tuple[Discover, ...]:
        """Return where more tables are found, as far as it could be put together."""
        made = [self._discover(number, discovery) for number, discovery in enumerate(self._settings.discover)]
        return tuple(source for source in made if source is not None)

    def _catalog(self, name: str, entry: CatalogEntry) -> Catalog | None:
        at: KeyPath = ("catalogs", name)
        table_format = self._format(entry.format, at)
        if table_format is None:
            return None
        if table_format.catalog_settings is None:
            able = ", ".join(one.name for one in FORMATS.values() if one.catalog_settings is not None)
            self._problem((*at, "format"), f"{entry.format} tables are found by their paths; catalogs have {able}")
            return None
        settings = self._typed(table_format.catalog_settings, entry.settings, at)
        return None if settings is None else Catalog(name=name, format=table_format, settings=settings)

    def _address(self, table: TableSettings) -> str:
        location = place_of(table.path, follow_links=False).location
        if location is None or not is_in_catalog(location):
            return table.path
        name, identifier = named_in_catalog(location)
        catalog = self.catalogs.get(name)
        if catalog is None:
            return table.path
        try:
            return catalog.format.shared_name(name, catalog.settings, identifier)
        except PermanentError:
            return table.path

    def _table(self, number: int, table: TableSettings, facts: Facts) -> Table | None:
        at: KeyPath = ("tables", number)
        self._once(self._ids, table.id, (*at, "id"), f"the id {table.id}")
        table_format = self._format(table.format, at)
        if table_format is None:
            return None
        location = self._location(table, at, facts)
        if location is not None and is_in_catalog(location):
            location = self._answered_by_name(location, at)
        made = self._looked_after(table, table_format, location, at, called=table.id)
        if made is None or is_in_catalog(made.location) or table.path in facts.places:
            return made
        said = "does not answer: it is only observed, and its links are not followed, until the next start"
        self._problem((*at, "path"), f"{shown(table.path)} {said}", Weight.WARNING)
        return replace(made, mode=Mode.OBSERVE)

    def _answered_by_name(self, location: str, at: KeyPath) -> str | None:
        """Return the location; None with a problem, where tables of the format are known by their paths."""
        name, identifier = named_in_catalog(location)
        catalog = self.catalogs.get(name)
        try:
            if catalog is not None:
                catalog.format.shared_name(name, catalog.settings, identifier)
        except PermanentError as wrong:
            self._problem((*at, "path"), str(wrong))
            return None
        return location

    def _discover(self, number: int, discovery: DiscoverySettings) -> Discover | None:
        """Return where tables are found, and what each of them will be, but for its name."""
        at: KeyPath = ("discover", number)
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
        self, care: CareSettings, table_format: TableFormat, location: str | None, at: KeyPath, *, called: str
    ) -> Table | None:
        """Return a table as it is looked after; None where it is nowhere, or nobody would serve it."""
        defaults = self._settings.defaults
        mode = care.mode or defaults.mode
        profile_name = care.spark or defaults.spark
        profile = self._profile(profile_name, table_format, mode, (*at, "spark"))
        before = len(self.problems)
        options = self._typed(table_format.table_options, care.options, (*at, "options"))
        policies = self._policies(care, table_format, at)
        whole = len(self.problems) == before
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
            budget=budget_of(care.budget or defaults.budget),
        )
        for wrong in table_format.contradictions(made) if whole else ():
            weight = Weight.WARNING if wrong.holds_back else Weight.ERROR
            self._problem((*at, *wrong.key.split(".")), wrong.reason, weight)
        return made

    def _profile(self, name: str, table_format: TableFormat, mode: Mode, at: KeyPath) -> SparkProfile | None:
        """Return the profile whose workers are to serve a table; with a problem, where they could not act on it."""
        profile = self._settings.spark.get(name)
        if profile is None:
            self._problem(
                at, f"there is no spark profile {shown(name)}; there is {', '.join(self._settings.spark) or 'none'}"
            )
        elif mode is Mode.ACT and table_format.name not in profile.formats:
            lacking = f"the workers of {shown(name)} have no bundle of {table_format.name}"
            self._problem(at, f"{lacking}: add it to spark.{name}.formats")
        return profile

    def _format(self, name: str, at: KeyPath) -> TableFormat | None:
        found = FORMATS.get(name)
        if found is None:
            self._problem((*at, "format"), f"{shown(name)} is no format: it is one of {', '.join(FORMATS)}")
        return found

    def _known_catalog(self, name: str, table_format: TableFormat | None, at: KeyPath) -> Catalog | None:
        """Return the catalog of this name; None with a problem, where it can be none of the format's."""
        if name not in self._settings.catalogs:
            known = ", ".join(self._settings.catalogs)
            there = f"there is {known}" if known else "there are none"
            self._problem(at, f"there is no catalog {shown(name)} under catalogs; {there}")
            return None
        catalog = self.catalogs.get(name)
        if catalog is not None and table_format is not None and catalog.format is not table_format:
            theirs = catalog.format.name
            self._problem(at, f"the catalog {shown(name)} is one of {theirs} tables, not of {table_format.name} tables")
            return None
        return catalog

    def _location(self, table: TableSettings, at: KeyPath, facts: Facts) -> str | None:
        place = facts.places.get(table.path) or place_of(table.path, follow_links=False)
        if place.location is None:
            self._problem((*at, "path"), place.wrong)
        if place.location == "/":
            self._problem((*at, "path"), "is the whole file system, which is no table")
        return place.location

    def _policies(self, table: CareSettings, table_format: TableFormat, at: KeyPath) -> Mapping[Service, Policy]:
        policies = {}
        for service, policy in table.services.items():
            here = (*at, "services", service.value)
            options_type = table_format.services.get(service)
            if options_type is None:
                able = ", ".join(table_format.services)
                self._problem(here, f"{service} is not supported on {table_format.name}; supported are {able}")
                continue
            options = self._typed(options_type, policy.options, (*here, "options"))
            policies[service] = policy_of(service, policy, options, priority=table.priority)
            self._check_profile_of_its_own(policy, table, table_format, here)
            if SERVICES[service].by_hand and policy.trigger is not None:
                self._problem((*here, "trigger"), f"{service} runs only when a person asks for it: remove the trigger")
            if not policy.asynchronous:
                self._check_follows_a_compaction(service, policy, table, here)
        return policies

    def _check_profile_of_its_own(
        self, policy: ServiceSettings, table: CareSettings, table_format: TableFormat, at: KeyPath
    ) -> None:
        """Find a service's own profile that is not there, or whose workers could not serve the table."""
        if policy.spark is None:
            return
        defaults = self._settings.defaults
        profile = self._profile(policy.spark, table_format, table.mode or defaults.mode, (*at, "spark"))
        name = table.spark or defaults.spark
        others = self._settings.spark.get(name)
        if profile is not None and others is not None and profile.timezone != others.timezone:
            said = f"the workers of {shown(policy.spark)} stamp instants in {profile.timezone}, the table's ({name}) in"
            self._problem((*at, "spark"), f"{said} {others.timezone}: one table has one zone")

    def _check_follows_a_compaction(
        self, service: Service, policy: ServiceSettings, table: CareSettings, at: KeyPath
    ) -> None:
        """Find `async: false` where it says nothing: it makes a clean follow the compactions of its table."""
        here = (*at, "async")
        if service is not Service.CLEAN:
            self._problem(here, f"only a clean can be told to run after each compaction, not {service}: remove it")
        elif policy.trigger is not None:
            self._problem(here, "false lets it run after each compaction, so it has no trigger of its own: remove one")
        elif Service.COMPACTION not in table.services:
            self._problem(here, "false lets it run after each compaction, but the table has no compaction policy")

    def _typed(self, model: Any, raw: Mapping[str, Any], at: KeyPath) -> Any:
        """Return what the format's type makes of its settings; None with problems, where they are wrong."""
        try:
            return TypeAdapter(model).validate_python(dict(raw))
        except ValidationError as wrong:
            self.problems += problems.problems_of(wrong, model, raw=raw, at=at)
            return None

    def _once(self, seen: dict[str, str], key: str, at: KeyPath, what: str) -> None:
        if key in seen:
            self._problem(at, f"{what} is registered at {seen[key]} already")
        seen.setdefault(key, problems.named(at))

    def _problem(self, at: KeyPath, sentence: str, weight: Weight = Weight.ERROR) -> None:
        self.problems.append(Problem(at=at, sentence=sentence, weight=weight))
