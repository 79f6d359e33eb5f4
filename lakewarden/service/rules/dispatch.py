"""Dispatch: which queued run starts now. Pure: what may run beside what, and whose slot it is."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta

from lakewarden.executors.contract import Room
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.planners.services import SERVICES
from lakewarden.service.model.run import Run


def startable(
    *,
    queued: Sequence[Run],
    running: Sequence[Run],
    gates: Collection[TableId],
    pools: Mapping[RunId, str],
    rooms: Mapping[str, Room],
    barred: Collection[TableId] = (),
    alone: Collection[tuple[TableId, Service]] = (),
    suspects: Collection[tuple[TableId, Service]] = (),
    troubled: Collection[tuple[TableId, Service]] = (),
    rank: Callable[[Run], int] = lambda _: 0,
) -> Run | None:
    """Return the queued run that starts next, if one may. `queued` has the longest queued in front.

    `gates` are the tables where a commit of ours is waiting or under way: no new clean starts there until it is
    done; one that was left half-way does, for the commit waits for it. `barred` are the tables where a writer holds
    every clean back, `alone` the services that their policies let run beside no other, `suspects` those that may have
    killed a JVM: each has its pool to itself, and whatever was queued after it waits until it had.
    `troubled` are those that failed of late: together they take half of a pool at most, however many they are.
    `pools` names the pool of each run, `rooms` the room in each. Tables with fewer runs under way come first,
    then a rollback, because others may wait for the very write that it undoes, and what takes up a plan that hinders
    others, for which nothing new is begun on its table but a rollback or a clean; then what has the highest `rank`,
    then the longest queued. What gives way to another queued run of its table begins nothing new (`goes_first`).
    """
    busy = Counter(run.table for run in running)
    awaited = {run.identity for run in queued if _hinders(run) and rooms[pools[run.id]].free > 0}
    by_table: defaultdict[str, list[Run]] = defaultdict(list)
    for run in queued:
        by_table[run.identity].append(run)
    kept: set[str] = set()
    starters: list[Run] = []
    for run in queued:
        pool = pools[run.id]
        beside = [other for other in running if pools.get(other.id) == pool]
        if pool in kept or _bolted(run, gates, barred) or (run.identity in awaited and _gives_way(run)):
            continue
        if _kept_apart(run, running, alone) or _has_no_slot(run, beside, rooms[pool]):
            continue
        if run.instant is None and goes_first(run, by_table[run.identity], pools=pools, rooms=rooms, rank=rank):
            continue
        if _is_suspect(run, suspects):
            kept.add(pool)
            if beside or rooms[pool].free < rooms[pool].slots:
                continue
        elif any(_is_suspect(other, suspects) for other in beside) or _crowds(run, beside, troubled, rooms[pool]):
            continue
        starters.append(run)
    order = {run.id: (busy[run.table], _can_wait(run), -rank(run)) for run in starters}
    return min(starters, key=lambda run: order[run.id], default=None)  # the first one of equals


def goes_first(
    run: Run,
    queued: Sequence[Run],
    *,
    pools: Mapping[RunId, str],
    rooms: Mapping[str, Room],
    rank: Callable[[Run], int],
) -> Run | None:
    """Return which of its table's `queued` runs a run gives way to, by what its service is: one that could have a slot
    if this one had none, and that stands no further back. So what fails again and again, or has waited for less long by
    ten minutes, keeps nothing waiting.
    """
    for other in queued:
        has_room = pools[other.id] == pools[run.id] or rooms[pools[other.id]].free > 0
        if other.service in SERVICES[run.service].gives_way_to and has_room and rank(other) >= rank(run):
            return other
    return None


def rank_of(run: Run, *, priority: int, troubled: bool, now: datetime) -> int:
    """Return how far in front a queued run stands: its priority, raised by one for every ten minutes that it waited, so
    that nothing waits for ever; what failed of late stands half an hour further back.
    """
    return priority + max(0, (now - run.created_at) // A_STEP_FORWARD) - (_STEPS_BACK if troubled else 0)


A_STEP_FORWARD = timedelta(minutes=10)
_STEPS_BACK = 3


def _crowds(run: Run, beside: Sequence[Run], troubled: Collection[tuple[TableId, Service]], room: Room) -> bool:
    """Whether the run, which failed of late, would take a slot of those that did not."""
    if (run.table, run.service) not in troubled:
        return False
    at_work = sum((other.table, other.service) in troubled for other in beside)
    return at_work >= max(1, room.slots // 2)


def _is_suspect(run: Run, suspects: Collection[tuple[TableId, Service]]) -> bool:
    return (run.table, run.service) in suspects


def _hinders(run: Run) -> bool:
    """Whether the run takes up a plan that is in others' way as long as it is pending."""
    return run.instant is not None and SERVICES[run.service].hinders


def _gives_way(run: Run) -> bool:
    """Whether the run begins something new, and would keep what hinders others waiting."""
    return run.instant is None and run.service is not Service.ROLLBACK and not SERVICES[run.service].barrier


def _can_wait(run: Run) -> bool:
    return run.service is not Service.ROLLBACK and not _hinders(run)


def _bolted(run: Run, gates: Collection[TableId], barred: Collection[TableId]) -> str | None:
    """Return who holds a clean back."""
    if not SERVICES[run.service].barrier:
        return None
    if run.table in barred:
        return "a writer's barrier holds cleans back"
    if run.table in gates and run.instant is None:
        return "a commit on the table waits for its cleans"
    return None


def _has_no_slot(run: Run, beside: Sequence[Run], room: Room) -> str | None:
    """Return why there is no slot for the run in its pool, where others are `beside` it."""
    if room.free == 0:
        return "no slot is free"
    kept = room.slots > 1 and room.free == 1 and not _cleaning(beside)
    return "the last slot is kept for cleans" if kept and not SERVICES[run.service].barrier else None


def _kept_apart(run: Run, running: Sequence[Run], alone: Collection[tuple[TableId, Service]]) -> str | None:
    """Return what is at work on the run's table, in whatever pool, that it may not run beside."""
    traits = SERVICES[run.service]
    for other in running:
        if other.identity != run.identity:
            continue
        apart = (run.table, run.service) in alone or (other.table, other.service) in alone
        if apart or other.service not in traits.beside:
            return f"{other.service} {other.id} is running on the table"
    return None


def _cleaning(running: Sequence[Run]) -> bool:
    return any(SERVICES[run.service].barrier for run in running)
