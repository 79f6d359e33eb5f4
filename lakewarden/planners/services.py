"""The traits of every table service: whether it deletes, what may run beside it on one table, how large its plan is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.triggers import NumCommits, TimeElapsed, Trigger, WhenAsked

_EACH_COMMIT = NumCommits(at_least=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceTraits:
    """What the daemon has to know of a service. It is the same for every format.

    - `deletes`: the service deletes files or partitions.
    - `joined`: execute and commit are one step. Nothing can stop that step half-way, so its permit expires.
    - `yields`: a pending plan of the service makes writers fail. So a plan never waits: it is executed at once or
      withdrawn at once.
    - `beside`: the services that may run on the same table at the same time.
    - `delays_commits`: the next commit of a run on the table waits until the service has ended.
    - `one_plan`: no other plan can be made while one is pending, even if a writer made it. If that plan were left to
      its author for ever, the service would never run again.
    - `meets_writers`: a write can fail because of a plan or a commit of the service.
    - `blocks_others`: a plan that was left half-way blocks writers or other services until it is finished or withdrawn.
    - `gives_way_to`: the services that go first if both are due on one table. Readers pay more the longer those wait.
    - `takes_turns`: the service gives way once. Its next run does not, because a busy table always has a compaction
      that is due.
    - `trigger`: when it is due, if the configuration does not say it.
    - `locked`: the joined step holds the lock of the table, and writers wait for it.
    - `oldest_beside`: a run that began longer ago than this may not run beside it. The service deletes unknown files
      that are older than a day. A younger run has no file that is that old.
    """

    deletes: bool
    joined: bool = True
    yields: bool = False
    beside: frozenset[Service] = frozenset()
    delays_commits: bool = False
    one_plan: bool = False
    meets_writers: bool = False
    blocks_others: bool = False
    gives_way_to: frozenset[Service] = frozenset()
    takes_turns: bool = False
    trigger: Trigger = _EACH_COMMIT
    locked: bool = False
    oldest_beside: timedelta | None = None

    @property
    def by_hand(self) -> bool:
        """Whether it runs only if an operator asks for it."""
        return isinstance(self.trigger, WhenAsked)


_DAILY = TimeElapsed(at_least=timedelta(days=1))
_CLEANED_BESIDE = frozenset({Service.COMPACTION, Service.LOG_COMPACTION})
_COMPACTION = frozenset({Service.COMPACTION})
_COMPACTION_FIRST = _COMPACTION
"""Every query has to merge log files until the compaction is done. A compaction also merges the log files that a log
compaction would merge."""

SERVICES: Mapping[Service, ServiceTraits] = {
    Service.COMPACTION: ServiceTraits(
        deletes=False,
        joined=False,
        beside=frozenset({Service.CLEAN, Service.ORPHANS}),
        meets_writers=True,
        trigger=NumCommits(at_least=5),
    ),
    Service.LOG_COMPACTION: ServiceTraits(
        deletes=False,
        joined=False,
        beside=frozenset({Service.CLEAN}),
        meets_writers=True,
        blocks_others=True,
        gives_way_to=_COMPACTION_FIRST,
        trigger=NumCommits(at_least=5),
    ),
    Service.CLUSTERING: ServiceTraits(
        deletes=False,
        yields=True,
        meets_writers=True,
        blocks_others=True,
        gives_way_to=_COMPACTION_FIRST,
        takes_turns=True,
        trigger=NumCommits(at_least=4),
    ),
    Service.CLEAN: ServiceTraits(deletes=True, beside=_CLEANED_BESIDE, delays_commits=True, one_plan=True),
    Service.ARCHIVE: ServiceTraits(deletes=True, trigger=NumCommits(at_least=10)),
    Service.ROLLBACK: ServiceTraits(deletes=True, one_plan=True),
    Service.TTL: ServiceTraits(deletes=True, meets_writers=True, trigger=_DAILY),
    Service.INDEXING: ServiceTraits(deletes=False, one_plan=True, locked=True),
    Service.SAVEPOINT: ServiceTraits(deletes=False, trigger=_DAILY),
    Service.CATALOG_SYNC: ServiceTraits(deletes=False, trigger=TimeElapsed(at_least=timedelta(minutes=5))),
    Service.METADATA_VALIDATION: ServiceTraits(deletes=False, joined=False, trigger=WhenAsked()),
    Service.METADATA_REBUILD: ServiceTraits(deletes=False, trigger=WhenAsked(), locked=True),
    Service.TABLE_STATS: ServiceTraits(deletes=False, joined=False, trigger=_DAILY),
    Service.PARTITION_COMMIT: ServiceTraits(deletes=False),
    Service.ORPHANS: ServiceTraits(deletes=True, beside=_COMPACTION, oldest_beside=timedelta(hours=12), trigger=_DAILY),
}

BY_HAND = frozenset(service for service, traits in SERVICES.items() if traits.by_hand)
"""The services that run only if an operator asks for them."""


def plan_bytes(view: TableView, service: Service, instant: str | None = None) -> int | None:
    """Return how many bytes a run of a service that rewrites files reads at most: those of the pending plan `instant`,
    if that says it, or all that has piled up. None if it is not known, or the service deletes.
    """
    if SERVICES[service].deletes:
        return None
    named = () if instant is None else view.timeline.pending(service)
    plan = next((entry.plan for entry in named if entry.time == instant), None)
    if plan is not None and plan.bytes is not None:
        return plan.bytes
    backlog = view.backlogs.get(service)
    return None if backlog is None else backlog.bytes
