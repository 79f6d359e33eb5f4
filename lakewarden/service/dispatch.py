"""Dispatch: which queued run starts now. Pure: what may run beside what, and whose slot it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from lakewarden.executors.contract import Room
from lakewarden.planners.model.table import TableId
from lakewarden.planners.services import SERVICES
from lakewarden.service.store.port import Run


def startable(
    *,
    queued: Sequence[Run],
    running: Sequence[Run],
    gates: Collection[TableId],
    pools: Mapping[TableId, str],
    rooms: Mapping[str, Room],
) -> Run | None:
    """Return the queued run that starts next, if one may.

    `gates` are the tables where a commit of ours is waiting or under way: no clean starts there until it is done.
    `pools` names the pool of each table, `rooms` the room in each. Tables with fewer runs under way come first,
    then the longest queued.
    """
    busy = Counter(run.table for run in running)
    for run in sorted(queued, key=lambda r: busy[r.table]):  # stable: the longest queued stays in front
        pool = pools[run.table]
        beside = [other for other in running if pools.get(other.table) == pool]
        if _hindered(run, beside, gates, rooms[pool]) is None:
            return run
    return None


def _hindered(run: Run, running: Sequence[Run], gates: Collection[TableId], room: Room) -> str | None:
    """Return why the run cannot start now."""
    traits = SERVICES[run.service]
    if room.free == 0:
        return "no slot is free"
    if not traits.barrier and room.slots > 1 and room.free == 1 and not _cleaning(running):
        return "the last slot is kept for cleans"
    if traits.barrier and run.table in gates:
        return "a commit on the table waits for its cleans"
    for other in running:
        if other.identity == run.identity and other.service not in traits.beside:
            return f"{other.service} {other.id} is running on the table"
    return None


def _cleaning(running: Sequence[Run]) -> bool:
    return any(SERVICES[run.service].barrier for run in running)
