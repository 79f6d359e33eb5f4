"""Tables that are registered over the API become tables, under the policies of the configuration in force."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import SettingOrigin, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.storage.locations import outside, spelled_location
from lakewarden.service.config import problems
from lakewarden.service.config.checks import Facts, gather
from lakewarden.service.config.layers.levels import TABLE
from lakewarden.service.config.loading import Config, assembled
from lakewarden.service.config.problems import Problem, Weight
from lakewarden.service.config.settings import Configuration, TableSettings

LEVEL = "registration"
"""The level of the settings that a registration says, as `GET /v1/tables/{table}/policies` shows it."""

_FROM_OUTSIDE = frozenset(
    {"id", "path", "format", "policy", "mode", "poll", "spark", "budget", "priority", "contact", "labels", "services"}
)
_OF_A_SERVICE = frozenset({"trigger", "schedule", "grace", "window", "priority"})
"""The keys that a registration may have. The others are for the configuration alone: they can hold classes, Spark
configuration, addresses and the places of secrets.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Base:
    """The document in force without the entries of single tables: what every registration is judged by."""

    file: Path
    values: Mapping[str, Any]
    roots: tuple[str, ...] = ()

    @property
    def patterns(self) -> Sequence[Any]:
        """Return the entries for many tables."""
        return self.values.get("tables") or ()


def base_of(config: Config, values: Mapping[str, Any], file: Path) -> Base:
    """Return what registrations are judged by, out of a document in force."""
    entries = values.get("tables") or ()
    patterns = [entry for entry in entries if isinstance(entry, Mapping) and entry.get("match") is not None]
    return Base(
        file=file,
        values={**values, "tables": patterns},
        roots=tuple(dict.fromkeys((*config.roots, *config.settings.roots))),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """What entries have become, in their order: a table, or why there is none. `spark` are the profiles with the
    formats of these tables.
    """

    tables: Sequence[Table | None] = ()
    problems: Sequence[Sequence[str]] = ()
    spark: Mapping[str, SparkProfile] = field(default_factory=dict)


def made_of(
    entries: Sequence[Mapping[str, Any]],
    base: Base,
    *,
    formats: Mapping[str, TableFormat],
    ask: Callable[..., Facts] = gather,
) -> Made:
    """Return the tables of entries. An entry with a problem makes none, and harms no other."""
    wrong = [_refused(entry, base) for entry in entries]
    sound = [number for number, reasons in enumerate(wrong) if not reasons]
    if not sound:
        return Made(tables=[None] * len(entries), problems=wrong)
    written = {**base.values, "tables": [*base.patterns, *(entries[number] for number in sound)]}
    config, problems = assembled(
        Configuration.model_validate(written), written, base.file, to_serve=False, ask=ask, formats=formats
    )
    for position, number in enumerate(sound, start=len(base.patterns)):
        wrong[number] = [str(replace(problem, at=problem.at[2:])) for problem in problems if _is_of(problem, position)]
    by_id = {table.id: table for table in config.tables}
    tables = [None if reasons else _registered(by_id, entry) for entry, reasons in zip(entries, wrong, strict=True)]
    return Made(tables=tables, problems=wrong, spark=config.settings.spark)


def with_spark(config: Config, made: Made) -> Mapping[str, SparkProfile]:
    """Return the profiles of a configuration, also with the formats of tables that are registered."""
    profiles = {}
    for name, profile in config.settings.spark.items():
        both = [
            candidate
            for candidate in (profile, made.spark.get(name))
            if candidate is not None and "formats" in candidate.model_fields_set
        ]
        formats = tuple(dict.fromkeys(word for candidate in both for word in candidate.formats))
        profiles[name] = profile.model_copy(update={"formats": formats}) if formats else profile
    return profiles


def _refused(entry: Mapping[str, Any], base: Base) -> list[str]:
    """Return why an entry is refused before anything outside of it is read."""
    kept = [*(key for key in entry if key not in _FROM_OUTSIDE), *_service_keys(entry)]
    if kept:
        return [f"{key} can only be set in the configuration: name a policy that has it" for key in kept]
    try:
        settings = TableSettings.model_validate(entry)
    except ValidationError as wrong:
        return [str(problem) for problem in problems.problems_of(wrong, TableSettings, raw=entry)]
    try:
        reason = outside(spelled_location(settings.path or ""), base.roots)
    except PermanentError as unusable:
        reason = str(unusable)
    return [] if reason is None else [f"path: {reason}"]


def _service_keys(entry: Mapping[str, Any]) -> Sequence[str]:
    services = entry.get("services")
    policies = services.items() if isinstance(services, Mapping) else ()
    return [
        f"services.{service}.{key}"
        for service, policy in policies
        if isinstance(policy, Mapping)
        for key in policy
        if key not in _OF_A_SERVICE
    ]


def _is_of(problem: Problem, position: int) -> bool:
    return problem.weight is Weight.ERROR and problem.at[:2] == ("tables", position)


def _registered(tables: Mapping[TableId, Table], entry: Mapping[str, Any]) -> Table | None:
    """Return the table of an entry. Its own settings come from no file."""
    named = entry.get("id")
    table = tables.get(TableId(named)) if named is not None else next(iter([*tables.values()][-1:]), None)
    if table is None:
        return None
    sources = {
        key: SettingOrigin(level=LEVEL) if origin.level == TABLE else origin for key, origin in table.sources.items()
    }
    return replace(table, sources=sources, line=None)
