"""A warm pool that one test after another has for itself, and the daemon's part in its runs."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lakewarden.executors.contract import (
    Asked,
    Assignment,
    CapacityChanged,
    Ended,
    Granted,
    Lost,
    Outcome,
    Plan,
    PoolEvent,
    Refused,
    Started,
)
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.storage.settings import StoreSettings
from tests.support.doubles import WORKER
from tests.support.waiting import HANGS, eventually

_Event = TypeVar("_Event", Asked, Ended, Lost, CapacityChanged, Started)


class Served(Protocol):
    """A table of any format."""

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of the table: its format, its location, its options."""
        ...


class SharedPool(WorkerPool):
    """A warm pool for one user after another: who starts it last is told, and nobody's close ends it."""

    def __init__(self, profile: SparkProfile, *, directory: Path, storage: Sequence[StoreSettings]) -> None:
        super().__init__(profile, directory=directory, storage=storage, command=WORKER)
        self.directory = directory
        self._user: Callable[[PoolEvent], None] | None = None

    def start(self, tell: Callable[[PoolEvent], None]) -> None:
        begun, self._user = self._user is not None, tell
        if begun:
            tell(CapacityChanged(reason="the pool has changed hands"))
        else:
            super().start(self._tell_the_user)

    def extend(self, until: float) -> None:
        """Do nothing: the workers outlive the daemon that has them for a while, and its lease."""

    def close(self) -> None:
        """Do nothing: the session ends it."""

    def end(self) -> None:
        """Kill the workers."""
        super().close()

    def log_tails(self) -> Sequence[str]:
        """Return the last lines of the log of each worker."""
        return [log.read_text(errors="replace")[-4000:] for log in self.directory.glob("worker-*.log")]

    def _tell_the_user(self, event: PoolEvent) -> None:
        assert self._user is not None
        self._user(event)


class Driver:
    """Submits runs to a pool and answers their questions, as the daemon would."""

    def __init__(self, pool: SharedPool) -> None:
        self.pool = pool
        self._events: queue.Queue[PoolEvent] = queue.Queue()
        self._told: list[PoolEvent] = []
        self._names = iter(range(1, 10_000))
        self._submitted: list[RunId] = []
        pool.start(self._events.put)

    @contextlib.contextmanager
    def pool_lent(self) -> Iterator[SharedPool]:
        """Lend the pool to a daemon, whose runs have ended when it is given back."""
        try:
            yield self.pool
        finally:
            self.pool.start(self._events.put)

    def until_ready(self) -> None:
        """Wait until every slot is free."""
        eventually(lambda: 0 < self.pool.capacity().slots == self.pool.capacity().free)

    def abandon(self) -> None:
        """Cancel what the last user has left, so that a test that failed takes no slot from the next one."""
        for run in self._submitted:
            self.pool.cancel(run, "its test has ended")  # of a run that has ended, nothing happens
        self._submitted.clear()

    def submit(
        self,
        table: Served,
        service: Service,
        *,
        instant: str | None = None,
        largest_share: float | None = None,
        most_files: int | None = None,
        rewrite_all: str | None = None,
        retained: str | None = None,
        **options: Any,
    ) -> RunId:
        run = RunId(f"run-{next(self._names)}")
        self._submitted.append(run)
        self.pool.submit(
            Assignment(
                run=run,
                epoch=1,
                table=TableId("sales.orders"),
                service=service,
                instant=instant,
                service_options=options,
                largest_share=largest_share,
                most_files=most_files,
                rewrite_all=rewrite_all,
                retained=retained,
                **table.assigned,
            )
        )
        return run

    def next(self, run: RunId, kind: type[_Event]) -> _Event:
        """Return the run's next event of this kind. Fails at once if the run's worker is gone."""
        while True:
            for event in self._told:
                if isinstance(event, kind) and getattr(event, "run", None) == run:
                    self._told.remove(event)
                    return event
            self._not_lost(run)
            self._hear()

    def question_or_end(self, run: RunId) -> Asked | Ended:
        """Return what the run asks next, or how it ended."""
        while True:
            for event in self._told:
                if isinstance(event, Asked | Ended) and event.run == run:
                    self._told.remove(event)
                    return event
            self._not_lost(run)
            self._hear()

    def _not_lost(self, run: RunId) -> None:
        lost = [event.reason for event in self._told if isinstance(event, Lost) and event.run == run]
        assert not lost, "\n".join([*lost, *self.pool.log_tails()])

    def _hear(self) -> None:
        self._told.append(self._events.get(timeout=HANGS))

    def advance(self, run: RunId, *, to: Step) -> Plan | None:
        """Grant every step before `to`, and return the plan as the question for `to` tells it."""
        while True:
            asked = self.question_or_end(run)
            assert isinstance(asked, Asked), f"it ended before it asked for {to}: {asked}"
            if asked.step is to:
                return asked.plan
            self.pool.answer(run, asked.step, Granted())

    def leave_planned(self, table: Served, service: Service, **options: Any) -> Plan:
        """Let a run plan, refuse it everything else, and return the plan it leaves behind."""
        run = self.submit(table, service, **options)
        plan = self.advance(run, to=Step.EXECUTE)
        assert plan is not None
        self.pool.answer(run, Step.EXECUTE, Refused(reason="not now"))
        self.next(run, Ended)
        return plan

    def finish(self, run: RunId) -> Outcome:
        """Grant whatever the run asks, and return how it ended."""
        while isinstance(event := self.question_or_end(run), Asked):
            self.pool.answer(run, event.step, Granted())
        return event.outcome

    def carry_out(self, table: Served, service: Service, *, instant: str | None = None, **options: Any) -> Outcome:
        """Carry out a run with every permit granted."""
        return self.finish(self.submit(table, service, instant=instant, **options))
