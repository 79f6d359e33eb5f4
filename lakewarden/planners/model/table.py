"""A registered table and what its owner wants for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType
from zoneinfo import ZoneInfo

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.window import Window

if TYPE_CHECKING:
    from lakewarden.planners.triggers import Trigger

TableId = NewType("TableId", str)


class Mode(StrEnum):
    """How far Lakewarden may go with a table: trust is given in steps."""

    OBSERVE = "observe"
    PLAN = "plan"
    ACT = "act"


class Scheduling(StrEnum):
    """Who makes plans for a service: us, the table's writers, or both."""

    DAEMON = "daemon"
    WRITER = "writer"
    BOTH = "both"


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """When one service of one table runs, in neutral words; `options` are in the format's own terms.

    `schedule` says whose plans we execute, `grace` how long a writer's own plan is left to its writer
    before we take it up. Outside its `window` nothing new is planned. `beside` says whether it may run beside the
    services that its traits allow: a clean that may not runs after a compaction instead of beside it. Where slots are
    few the service with the higher `priority` starts first. `spark` names the profile whose workers carry it out, where
    that is not the table's, and `session` is the Spark configuration of the session of each of its runs.
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
class DeletionBudget:
    """The most that one run may delete without a person's approval: data files, a share of the table's data files
    in percent, and partitions as a whole. None: no limit of this kind.
    """

    files: int | None = None
    percent: float | None = None
    partitions: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A registered lakehouse table.

    `zone` is the time zone of the session workers that serve it; `options` are the format's own
    settings of the table (for Hudi: the lock its writers use), of the type the format declares. `budget` bounds
    each of its services that delete. `catalog` are the settings of the catalog that knows it, of the type the format
    declares, for a table whose location is `catalog://<name>/<identifier>`. `spark` names the profile whose workers
    serve it, where a policy does not name another.
    """

    id: TableId
    format: str
    location: str
    catalog: Any = None
    zone: ZoneInfo = ZoneInfo("UTC")
    mode: Mode = Mode.OBSERVE
    poll: timedelta = timedelta(seconds=10)
    spark: str = "default"
    options: Any = None
    policies: Mapping[Service, Policy] = field(default_factory=dict)
    budget: DeletionBudget = DeletionBudget()

    def profile_of(self, service: Service) -> str:
        """Return the name of the `spark` profile whose workers carry a service out."""
        policy = self.policies.get(service)
        return self.spark if policy is None or policy.spark is None else policy.spark

    def profiles(self) -> frozenset[str]:
        """Return the names of all `spark` profiles whose workers carry services of the table out."""
        return frozenset(map(self.profile_of, self.policies))
