"""Runs on a session pool that grants every step: the work alone, without the daemon's decisions."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.runs.small_tables import SmallTables
from lakewarden.executors.contract import Asked, Assignment, Ended, Granted, Lost, PoolEvent, Succeeded
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId


def assignment_of(tables: SmallTables, path: Path, service: Service = Service.COMPACTION, **options: Any) -> Assignment:
    """Return the run of one service on one table."""
    return Assignment(
        run=RunId(f"{path.name}-{service}"),
        epoch=1,
        table=TableId(path.name),
        format="hudi",
        location=str(path),
        service=service,
        table_options=tables.options(path.name),
        service_options=options,
    )


class GrantingPool:
    """A pool, and the reports of its runs."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._events: queue.SimpleQueue[PoolEvent] = queue.SimpleQueue()
        pool.start(self._events.put)
        while not pool.capacity().free:
            self._events.get(timeout=120)

    def carry_out(self, chains: Sequence[Sequence[Assignment]], *, at_once: int = 1) -> float:
        """Execute every chain, its runs one after another. Returns the seconds that it took.

        Raises RuntimeError if a run does not succeed.
        """
        begun = time.monotonic()
        waiting = deque(deque(chain) for chain in chains)
        under_way: dict[RunId, deque[Assignment]] = {}
        while waiting or under_way:
            while waiting and len(under_way) < at_once:
                self._go_on(waiting.popleft(), under_way)
            match self._events.get(timeout=300):
                case Asked() as asked:
                    self._pool.answer(asked.run, asked.step, Granted())
                case Ended(run=run, outcome=Succeeded()):
                    self._go_on(under_way.pop(run), under_way)
                case Ended() | Lost() as failed:
                    raise RuntimeError(f"a run did not succeed: {failed}")
        return time.monotonic() - begun

    def _go_on(self, chain: deque[Assignment], under_way: dict[RunId, deque[Assignment]]) -> None:
        if chain:
            assignment = chain.popleft()
            under_way[assignment.run] = chain
            self._pool.submit(assignment)


@contextmanager
def granting_pool(directory: Path, profile: SparkProfile) -> Iterator[GrantingPool]:
    """Provide a pool with its workers up, for as long as the context is open."""
    pool = WorkerPool(profile, directory=directory)
    try:
        yield GrantingPool(pool)
    finally:
        pool.close()
