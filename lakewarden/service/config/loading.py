"""The configuration file becomes a Configuration and the registered tables; wrong files are refused as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import canonical_location
from lakewarden.planners.triggers import NumCommits, NumRewrites, TimeElapsed, Trigger
from lakewarden.service.config import problems
from lakewarden.service.config.document import read_document
from lakewarden.service.config.settings import BudgetSettings, Configuration, ServiceSettings, TableSettings

_TRIGGERS: Mapping[Service, Trigger] = {
    Service.COMPACTION: NumCommits(at_least=5),
    Service.LOG_COMPACTION: NumCommits(at_least=5),
    Service.CLUSTERING: NumCommits(at_least=4),
    Service.ARCHIVE: NumCommits(at_least=10),
    Service.TTL: TimeElapsed(at_least=timedelta(days=1)),
    Service.ORPHANS: TimeElapsed(at_least=timedelta(days=1)),
}
_OTHERWISE: Trigger = NumCommits(at_least=1)
_AFTER_A_REWRITE: Trigger = NumRewrites(at_least=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """A configuration that was found right, and the tables it registers."""

    settings: Configuration
    tables: tuple[Table, ...]
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
    tables = assembly.tables()
    assembly.check_ports()
    found += assembly.problems
    if found:
        raise _refused(path, found)
    data_dir = (path.parent / settings.daemon.data_dir).absolute()
    return Config(settings=settings, tables=tables, data_dir=data_dir)


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

    def tables(self) -> tuple[Table, ...]:
        """Return the tables that could be put together."""
        made = [self._table(number, table) for number, table in enumerate(self._settings.tables)]
        return tuple(table for table in made if table is not None)

    def check_ports(self) -> None:
        """Find the API and the management server on one port."""
        api, management = self._settings.api, self._settings.management
        if api.port == management.port:
            self._problem(
                ("management", "port"), f"{management.port} is the api.port too: probes need a port of their own"
            )

    def _table(self, number: int, table: TableSettings) -> Table | None:
        at: problems.Path = ("tables", number)
        self._once(self._ids, table.id, (*at, "id"), f"the id {table.id}")
        table_format = FORMATS.get(table.format)
        if table_format is None:
            self._problem((*at, "format"), f"{table.format!r} is no format: it is one of {', '.join(FORMATS)}")
            return None
        location = self._location(table, at)
        profile_name = table.spark or self._settings.defaults.spark
        profile = self._settings.spark.get(profile_name)
        mode = table.mode or self._settings.defaults.mode
        if profile is None:
            known = ", ".join(self._settings.spark)
            self._problem((*at, "spark"), f"there is no spark profile {profile_name!r}; there is {known}")
        elif mode is Mode.ACT and table.format not in profile.formats:
            remedy = f"add it to spark.{profile_name}.formats"
            self._problem((*at, "spark"), f"the workers of {profile_name!r} have no bundle of {table.format}: {remedy}")
        options = self._typed(table_format.table_options, table.options, (*at, "options"))
        policies = self._policies(table, table_format, at)
        if location is None or profile is None:
            return None
        defaults = self._settings.defaults
        made = Table(
            id=TableId(table.id),
            format=table.format,
            location=location,
            zone=ZoneInfo(profile.timezone),
            mode=mode,
            poll=table.poll or defaults.poll,
            spark=profile_name,
            options=options,
            policies=policies,
            budget=_budget(table.budget or defaults.budget),
        )
        for wrong in table_format.contradictions(made):
            self._problem((*at, *wrong.key.split(".")), wrong.reason)
        return made

    def _location(self, table: TableSettings, at: problems.Path) -> str | None:
        try:
            location = canonical_location(table.path)
        except PermanentError as wrong:
            self._problem((*at, "path"), str(wrong))
            return None
        self._once(self._locations, location, (*at, "path"), f"the table at {location}")
        return location

    def _policies(self, table: TableSettings, table_format: TableFormat, at: problems.Path) -> Mapping[Service, Policy]:
        policies = {}
        for service, policy in table.services.items():
            here = (*at, "services", service.value)
            options_type = table_format.services.get(service)
            if options_type is None:
                able = ", ".join(table_format.services)
                self._problem(here, f"{service} is not supported on {table.format}; supported are {able}")
                continue
            policies[service] = _policy(service, policy, self._typed(options_type, policy.options, (*here, "options")))
            if not policy.asynchronous:
                self._check_follows_a_compaction(service, policy, table, here)
        return policies

    def _check_follows_a_compaction(
        self, service: Service, policy: ServiceSettings, table: TableSettings, at: problems.Path
    ) -> None:
        """Find `async: false` where it says nothing: it makes a clean follow the compactions of its table."""
        here = (*at, "async")
        if service is not Service.CLEAN:
            self._problem(here, f"only a clean can be told to run after each compaction, not {service}: remove it")
        elif policy.trigger is not None:
            self._problem(here, "false lets it run after each compaction, so it has no trigger of its own: remove one")
        elif Service.COMPACTION not in table.services:
            self._problem(here, "false lets it run after each compaction, but the table has no compaction policy")

    def _typed(self, model: type[Settings], raw: Mapping[str, Any], at: problems.Path) -> Settings | None:
        try:
            return model.model_validate(dict(raw))
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
