"""A registered table and what its owner wants for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NewType
from zoneinfo import ZoneInfo

from lakewarden.planners.model.instant import Service

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
    before we take it up.
    """

    trigger: Trigger
    options: Any = None
    schedule: Scheduling = Scheduling.DAEMON
    grace: timedelta = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A registered lakehouse table.

    `zone` is the time zone of the session workers that serve it; `options` are the format's own
    settings of the table (for Hudi: the lock its writers use), of the type the format declares.
    """

    id: TableId
    format: str
    location: str
    zone: ZoneInfo = ZoneInfo("UTC")
    mode: Mode = Mode.OBSERVE
    poll: timedelta = timedelta(seconds=10)
    spark: str = "default"
    options: Any = None
    policies: Mapping[Service, Policy] = field(default_factory=dict)
