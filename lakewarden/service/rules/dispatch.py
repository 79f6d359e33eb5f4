"""Dispatch: which queued run starts now. Pure. It knows which services may run at the same time, and who gets a
slot.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.executors.contract import Capacity
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class PoolFacts:
    """Where runs go. `pools` names the pool of each run, and `capacities` has the slots of each pool."""

    pools: Mapping[RunId, str]
    capacities: Mapping[str, Capacity]


_Keys = Collection[tuple[TableId, Service]]


@dataclass(frozen=True, kw_only=True, slots=True)
class LastRuns:
    """What became of the last runs of services, each with its table. `suspects` may have killed a JVM. `failing` failed
    recently. The last run of `yielded` yielded.
    """

    suspects: _Keys = ()
    failing: _Keys = ()
    yielded: _Keys = ()


def startable(
    *,
    queued: Sequence[Run],
    running: Sequence[Run],
    committing_tables: Collection[TableId],
    facts: PoolFacts,
    behind_barrier: Collection[TableId] = (),
    alone: _Keys = (),
    last: LastRuns = LastRuns(),
    rank: Callable[[Run], int] = lambda _: 0,
) -> Run | None:
    """Return the queued run that starts next, or None if no run may start. `queued` has the longest queued run first.

    `committing_tables` are the tables on which a commit of ours waits or is under way. No new clean starts there until
    the commit is done. A clean that was left unfinished does start, because the commit waits for it. `behind_barrier`
    are the tables on which the barrier of a writer delays every clean. `alone` are the services that may not run beside
    another service of their table, by their policies. Each suspect of `last` has its pool to itself, and the runs that
    were queued after it wait until it has run. All that are failing take half of a pool at most together.

    The order is: first the tables with fewer active runs. Then rollbacks, because other runs may wait for the write
    that a rollback undoes, and together with them the pending plans that block others. Then the highest `rank`. Then
    the longest queued. While such a pending plan is queued, its table begins nothing new but rollbacks and cleans. A
    run that gives way to another queued run of its table begins nothing new either (`goes_first`).
    """
    pools, capacities = facts.pools, facts.capacities
    busy = Counter(run.table for run in running)
    awaited = {run.identity for run in queued if _blocks_others(run) and capacities[pools[run.id]].free > 0}
    by_table: defaultdict[str, list[Run]] = defaultdict(list)
    for run in queued:
        by_table[run.identity].append(run)
    kept: set[str] = set()
    starters: list[Run] = []
    for run in queued:
        pool = pools[run.id]
        beside = [other for other in running if pools.get(other.id) == pool]
        if (
            pool in kept
            or _cleans_held_by(run, committing_tables, behind_barrier)
            or (run.identity in awaited and _gives_way(run))
        ):
            continue
        if _kept_apart(run, running, alone) or _has_no_slot(run, beside, capacities[pool]):
            continue
        if run.instant is None and goes_first(
            run, by_table[run.identity], pools=pools, capacities=capacities, rank=rank, last=last
        ):
            continue
        if _is_suspect(run, last):
            kept.add(pool)
            if beside or capacities[pool].free < capacities[pool].slots:
                continue
        elif any(_is_suspect(other, last) for other in beside) or _exceeds_failing_share(
            run, beside, last.failing, capacities[pool]
        ):
            continue
        starters.append(run)
    order = {run.id: (busy[run.table], _can_wait(run), -rank(run)) for run in starters}
    return min(starters, key=lambda run: order[run.id], default=None)  # `min` returns the first of equal runs


def waiting_for_slots(
    *,
    queued: Sequence[Run],
    running: Sequence[Run],
    committing_tables: Collection[TableId],
    facts: PoolFacts,
    behind_barrier: Collection[TableId] = (),
    alone: _Keys = (),
) -> Mapping[str, int]:
    """Return by pool how many queued runs wait for nothing but a slot. The arguments are those of `startable`. A run
    that waits for another run of its table does not count, because more workers would not help it.
    """
    waiting = dict.fromkeys(facts.capacities, 0)
    taken: set[str] = set()
    for run in queued:
        pool = facts.pools[run.id]
        if _cleans_held_by(run, committing_tables, behind_barrier) or _kept_apart(run, running, alone):
            continue
        if run.identity in taken and not SERVICES[run.service].delays_commits:
            continue
        beside = [other for other in running if facts.pools.get(other.id) == pool]
        if _has_no_slot(run, beside, facts.capacities[pool]):
            waiting[pool] += 1
            taken.add(run.identity)
    return waiting


def goes_first(
    run: Run,
    queued: Sequence[Run],
    *,
    pools: Mapping[RunId, str],
    capacities: Mapping[str, Capacity],
    rank: Callable[[Run], int],
    last: LastRuns,
) -> Run | None:
    """Return the queued run of the same table that goes first, by the `gives_way_to` of the service of `run`.

    The other run must be able to have a slot if `run` has none, and its rank must not be lower. So a service that fails
    again and again delays no other, and neither does a run that was queued ten minutes later. A service that
    `takes_turns` does not give way if its last run yielded.
    """
    if SERVICES[run.service].takes_turns and (run.table, run.service) in last.yielded:
        return None
    for other in queued:
        has_slot = pools[other.id] == pools[run.id] or capacities[pools[other.id]].free > 0
        if other.service in SERVICES[run.service].gives_way_to and has_slot and rank(other) >= rank(run):
            return other
    return None


def rank_of(run: Run, *, priority: int, failing: bool, now: datetime, shows_rows: bool = False) -> int:
    """Return the rank of a queued run: its priority, plus one for every ten minutes in the queue.

    So no run waits for ever. A service that failed recently gets three less, as if it was queued half an hour later.
    Otherwise a run that `shows_rows`, which readers do not see before, comes before every priority.
    """
    ahead = FIRST_CLASS if shows_rows and not failing else 0
    return ahead + priority + max(0, (now - run.created_at) // RANK_RISES_EVERY) - (_LESS_IF_FAILING if failing else 0)


RANK_RISES_EVERY = timedelta(minutes=10)
_LESS_IF_FAILING = 3
FIRST_CLASS = 201
"""More than the highest priority (100) is above the lowest (-100). A run of another table overtakes after 33 hours."""


def _exceeds_failing_share(run: Run, beside: Sequence[Run], failing: _Keys, capacity: Capacity) -> bool:
    """Whether the run failed recently, and would exceed the share of a pool for runs that failed."""
    if (run.table, run.service) not in failing:
        return False
    at_work = sum((other.table, other.service) in failing for other in beside)
    return at_work >= max(1, capacity.slots // 2)


def _is_suspect(run: Run, last: LastRuns) -> bool:
    return (run.table, run.service) in last.suspects


def _blocks_others(run: Run) -> bool:
    """Whether the run takes up a plan that blocks others as long as it is pending."""
    return run.instant is not None and SERVICES[run.service].blocks_others


def _gives_way(run: Run) -> bool:
    """Whether the run begins something new, and would delay a run that blocks others."""
    return run.instant is None and run.service is not Service.ROLLBACK and not SERVICES[run.service].delays_commits


def _can_wait(run: Run) -> bool:
    return run.service is not Service.ROLLBACK and not _blocks_others(run)


def _cleans_held_by(
    run: Run, committing_tables: Collection[TableId], behind_barrier: Collection[TableId]
) -> str | None:
    """Return what delays a clean, or None."""
    if not SERVICES[run.service].delays_commits:
        return None
    if run.table in behind_barrier:
        return "a writer's barrier holds cleans back"
    if run.table in committing_tables and run.instant is None:
        return "a commit on the table waits for its cleans"
    return None


def _has_no_slot(run: Run, beside: Sequence[Run], capacity: Capacity) -> str | None:
    """Return why the pool has no slot for the run, or None. `beside` are the running runs of the pool."""
    if capacity.free == 0:
        return "no slot is free"
    kept = capacity.slots > 1 and capacity.free == 1 and not _cleaning(beside)
    return "the last slot is kept for cleans" if kept and not SERVICES[run.service].delays_commits else None


def _kept_apart(run: Run, running: Sequence[Run], alone: _Keys) -> str | None:
    """Return the running run of the same table, in any pool, that the run must not run beside, or None."""
    traits = SERVICES[run.service]
    for other in running:
        if other.identity != run.identity:
            continue
        apart = (run.table, run.service) in alone or (other.table, other.service) in alone
        if apart or other.service not in traits.beside:
            return f"{other.service} {other.id} is running on the table"
    return None


def _cleaning(running: Sequence[Run]) -> bool:
    return any(SERVICES[run.service].delays_commits for run in running)
