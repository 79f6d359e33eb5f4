"""A registered table and the settings of its owner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NewType, TypeVar
from zoneinfo import ZoneInfo

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.proof import Check
from lakewarden.planners.model.window import Window

if TYPE_CHECKING:
    from lakewarden.planners.triggers import Trigger

POLL_WITH_HOOKS = timedelta(seconds=60)
"""How often a remote table is polled while hooks announce its commits, if its settings do not say it."""

TableId = NewType("TableId", str)

_Options = TypeVar("_Options")


class Mode(StrEnum):
    """How far Lakewarden may go with a table."""

    OBSERVE = "observe"
    PLAN = "plan"
    ACT = "act"


class ActWhen(StrEnum):
    """When the mode `act` of a table is in force: at once, or while the table is proved."""

    AT_ONCE = "at_once"
    PROVED = "proved"


class Scheduling(StrEnum):
    """Who makes plans for a service: Lakewarden, the table's writers, or both."""

    DAEMON = "daemon"
    WRITER = "writer"
    BOTH = "both"


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When one service of one table runs, in terms that all formats share. `options` are in the format's own terms.

    `schedule` says which plans Lakewarden executes. `grace` is how long a writer's own plan is left to its writer
    before Lakewarden takes it up. Outside its `window` nothing new is planned. `beside` says whether it may run beside
    the services that its traits allow. A clean that may not runs after a compaction. If slots are few, the service with
    the higher `priority` starts first. `spark` names the profile of its workers, if that is not the table's. `session`
    is the Spark configuration for the session of each of its runs.
    """

    trigger: Trigger
    options: Any = None
    schedule: Scheduling = Scheduling.DAEMON
    grace: timedelta = timedelta(minutes=10)
    window: Window | None = None
    beside: bool = True
    priority: int = 0
    spark: str | None = None
    session: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Leads runs to the workers of the profile `spark`: those of `services` (empty: of all), with a plan of
    `plan_at_least` bytes. If the size of a plan is not known, a route with `plan_at_least` does not lead it.

    `tables` are patterns of ids, and `labels` those of the table (empty: of all). They stand only in the routes of a
    pattern of tables: their ids and labels are not known before the tables are found.
    """

    spark: str
    services: frozenset[Service] = frozenset()
    plan_at_least: int | None = None
    tables: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def leads_all(self) -> bool:
        """Whether it leads every run of its services."""
        return self.plan_at_least is None and not self.tables and not self.labels

    def is_for(self, service: Service) -> bool:
        """Whether it leads some runs of the service."""
        return not self.services or service in self.services

    def begins_at(self, table: TableId, labels: Mapping[str, str]) -> bool:
        """Whether it leads some runs of the table."""
        named = not self.tables or any(fnmatchcase(table, pattern) for pattern in self.tables)
        return named and self.labels.items() <= labels.items()

    def holds(self, plan_bytes: int | None) -> bool:
        """Whether a plan of this size (None: not known) is large enough for it."""
        return self.plan_at_least is None or (plan_bytes is not None and plan_bytes >= self.plan_at_least)


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletionBudget:
    """The most that one run may delete without an approval: data files, a share of the table's data files in percent,
    and whole partitions. None: no limit of this kind.

    `asks_first`: the first clean of the table needs an approval. `asks_shorter`: so does a clean that keeps less than
    the last clean of another program did, or than the properties of the table say.
    """

    files: int | None = None
    percent: float | None = None
    partitions: int | None = None
    asks_first: bool = False
    asks_shorter: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingOrigin:
    """Where a setting of a table comes from.

    `level` is `defaults`, `policy NAME`, `pattern ADDRESS`, `table` or `profile`. `line` is the line of the
    configuration file. `relative`: it is counted from the first line of the table's own entry, so that thousands of
    tables share their origins.
    """

    level: str
    line: int | None = None
    relative: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A registered lakehouse table.

    `zone` is the time zone of its session workers. `options` are the format's own settings of the table, of the type
    that the format declares. For Hudi one of them is the lock of its writers. `budget` bounds each of its services that
    delete. If the location is `catalog://<name>/<identifier>`, `catalog` are the settings of that catalog, of the type
    that the format declares. `spark` names the profile of its workers, unless a policy names another, or one of
    `routes` leads to another. The first route that leads a run counts.

    `poll` is how often it is polled. In an object store or a catalog it is `poll_with_hooks`, if that is longer, while
    hooks announce its commits.

    `act_when` says when the mode `act` is in force, and `proof_without` which checks the proof does without.
    `contact` and `labels` are words of people, for people. `sources` says where settings come from that are not built
    in, by the key of the setting (`mode`, `services.clean.trigger`). `file` is the configuration file, and `line` the
    first line of the table's own entry in it. `unfit` are the services of its policies that its format does not have,
    with the reason: they do not apply.
    """

    id: TableId
    format: str
    location: str
    catalog: Any = None
    zone: ZoneInfo = ZoneInfo("UTC")
    mode: Mode = Mode.OBSERVE
    act_when: ActWhen = ActWhen.AT_ONCE
    proof_without: frozenset[Check] = frozenset()
    poll: timedelta = timedelta(seconds=10)
    poll_with_hooks: timedelta = POLL_WITH_HOOKS
    spark: str = "default"
    routes: tuple[Route, ...] = ()
    options: Any = None
    policies: Mapping[Service, Policy] = field(default_factory=dict)
    budget: DeletionBudget = DeletionBudget()
    contact: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, SettingOrigin] = field(default_factory=dict)
    file: str = ""
    line: int | None = None
    unfit: Mapping[Service, str] = field(default_factory=dict)

    def options_of(self, service: Service, kind: type[_Options]) -> _Options:
        """Return the options of a service's policy, or the defaults if there is no policy."""
        policy = self.policies.get(service)
        options = None if policy is None else policy.options
        return options if isinstance(options, kind) else kind()

    def origin(self, key: str) -> SettingOrigin | None:
        """Return where a setting comes from, or the value that it is a part of. None if it is built in."""
        if key in self.sources:
            return self.sources[key]
        fewest = 3 if key.startswith("services.") else 2
        parts = key.split(".")
        for length in range(len(parts) - 1, fewest - 1, -1):
            above = ".".join(parts[:length])
            if above in self.sources:
                is_mapping = any(source.startswith(f"{above}.") for source in self.sources)
                return None if is_mapping else self.sources[above]
        return None

    def place(self, origin: SettingOrigin) -> str | None:
        """Return the file and the line of an origin. None if it is not in a file."""
        if origin.line is None or not self.file:
            return None
        return f"{self.file}:{origin.line + (self.line or 0) if origin.relative else origin.line}"

    def profile_of(self, service: Service, plan_bytes: int | None = None) -> str:
        """Return the name of the `spark` profile for a run of a service with a plan of this size (None: not known)."""
        policy = self.policies.get(service)
        if policy is not None and policy.spark is not None:
            return policy.spark
        routes = (route for route in self.routes if route.is_for(service) and route.begins_at(self.id, self.labels))
        return next((route.spark for route in routes if route.holds(plan_bytes)), self.spark)

    def profiles_of(self, service: Service) -> Sequence[str]:
        """Return the names of the `spark` profiles that runs of a service may have, in the order of the routes."""
        policy = self.policies.get(service)
        if policy is not None and policy.spark is not None:
            return (policy.spark,)
        profiles = []
        for route in self.routes:
            if route.is_for(service):
                profiles.append(route.spark)
                if route.leads_all:
                    return tuple(dict.fromkeys(profiles))
        return tuple(dict.fromkeys((*profiles, self.spark)))

    def profiles(self) -> frozenset[str]:
        """Return the names of all `spark` profiles for services of the table."""
        return frozenset(name for service in self.policies for name in self.profiles_of(service))
