"""A whole daemon on fake tables, in the thread of the test and on the clock of the test."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from lakewarden.executors.contract import Assignment, Granted, Permit, Plan, Refused
from lakewarden.planners.model.clock import Clock, ManualClock
from lakewarden.planners.model.decision import Decision
from lakewarden.planners.model.instant import Instant, RunId, Service, Step
from lakewarden.planners.model.table import DeletionBudget, Mode, Policy, Route, Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.storage import Storages, storage_for
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.control.command_queue import CommandQueue
from lakewarden.service.events import Listener
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.model.table_sources import FoundTables, Source
from lakewarden.service.rules.permits import Limits
from lakewarden.service.rules.shutdown import ShutdownPhase
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.state.readers.threads import Threads
from lakewarden.service.store.sql.store import Store
from lakewarden.service.wiring.daemon import compose
from tests.support.doubles.callers_thread import CallersThread
from tests.support.doubles.fake import FAKE, FakeTable
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore

_Answer = TypeVar("_Answer")
START = datetime(2026, 1, 1, tzinfo=UTC)
TRIPS = TableId("trips")
COMPACT = {Service.COMPACTION: Policy(trigger=NumCommits(at_least=3))}
COMPACT_AND_CLEAN = {**COMPACT, Service.CLEAN: Policy(trigger=NumCommits(at_least=3))}


def prepare(lake: FakeTable) -> None:
    """Give a table an old version to clean and log files to compact: write, compact by hand, write again."""
    for _ in range(3):
        lake.write()
    compaction = lake.plan_compaction()
    assert compaction is not None
    lake.start(compaction)
    lake.complete(compaction)
    for _ in range(3):
        lake.write()


@dataclass
class EventRecorder(Listener):
    """Records the events of the daemon."""

    lines: list[str] = field(default_factory=list)
    errors: list[tuple[TableId, str]] = field(default_factory=list)
    decisions: list[tuple[Service, Decision]] = field(default_factory=list)
    unblocks: list[tuple[Service, Decision]] = field(default_factory=list)
    failures: list[Blamed] = field(default_factory=list)
    adopted_runs: list[RunId] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    unlisted: dict[str, Mapping[str, str]] = field(default_factory=dict)
    refused: dict[str, Mapping[str, str]] = field(default_factory=dict)
    found: dict[str, list[TableId]] = field(default_factory=dict)

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        self.decisions.append((service, decision))

    def unblocked(self, table: Table, service: Service, decision: Decision) -> None:
        self.unblocks.append((service, decision))

    def requested(self, run: Run) -> None:
        self.lines.append(f"{run.service} requested")

    def started(self, run: Run) -> None:
        self.lines.append(f"{run.service} started")

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        self.lines.append(f"{run.service} {step} {type(permit).__name__}")

    def ended(self, run: Run) -> None:
        self.lines.append(f"{run.service} {run.state}")

    def adopted(self, run: Run) -> None:
        self.adopted_runs.append(run.id)

    def lease_lost(self, reason: str) -> None:
        self.losses.append(reason)

    def discovered(self, source: str, found: FoundTables) -> None:
        self.unlisted[source] = found.unlisted
        self.found[source] = [table.id for table in found.tables]
        self.refused[source] = found.refused

    def poll_failed(self, table: Table, reason: str) -> None:
        self.errors.append((table.id, reason))

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        self.failures.append(blamed)

    def approved(self, table: TableId, service: Service, deletion: Plan, by: str) -> None:
        self.lines.append(f"{service} approved by {by}")


class HoldingPool(FakePool):
    """A fake pool that takes some steps only when it is told to: until then they are being executed."""

    def __init__(self, *, slots: int, clock: Clock | None = None, executor: str | None = None) -> None:
        super().__init__(slots=slots, clock=clock, executor=executor)
        self._services: dict[RunId, Service] = {}
        self._held: set[tuple[Service, Step]] = set()
        self._under_way: list[tuple[RunId, Step, Granted]] = []

    def hold(self, service: Service, step: Step) -> None:
        """Let this step of a service take until `release`."""
        self._held.add((service, step))

    def release(self) -> None:
        """Let every step that is held end."""
        self._held.clear()
        under_way, self._under_way = self._under_way, []
        for answer in under_way:
            super().answer(*answer)

    @property
    def under_way(self) -> list[tuple[Service, Step]]:
        """The steps that are held."""
        return [(self._services[run], step) for run, step, _ in self._under_way]

    def submit(self, assignment: Assignment) -> None:
        super().submit(assignment)
        self._services[assignment.run] = assignment.service

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        if isinstance(permit, Granted) and (self._services[run], step) in self._held:
            self._under_way.append((run, step, permit))
        else:
            super().answer(run, step, permit)


class HarnessClock(ManualClock):
    """A clock under which a daemon's threads go on: while time passes, its lease is kept as they would keep it."""

    STEP = timedelta(seconds=5)

    def __init__(self, start: datetime = START) -> None:
        super().__init__(start)
        self.meanwhile: Callable[[], None] = lambda: None

    def advance(self, by: timedelta) -> None:
        while by > self.STEP:
            super().advance(self.STEP)
            self.meanwhile()
            by -= self.STEP
        super().advance(by)
        self.meanwhile()


class DaemonHarness:
    """A composed daemon with its tables, its pool, and the writers' side of each table."""

    def __init__(
        self,
        folder: Path,
        *,
        names: Sequence[str] = ("trips",),
        policies: Mapping[Service, Policy] | None = None,
        mode: Mode = Mode.ACT,
        store: Store | None = None,
        slots: int = 4,
        clock: HarnessClock | None = None,
        formats: Mapping[str, TableFormat] | None = None,
        drain: timedelta = timedelta(minutes=1),
        budget: DeletionBudget | None = None,
        lakes: Mapping[TableId, FakeTable] | None = None,
        storages: Storages | None = None,
        sources: Sequence[Source] = (),
        routes: tuple[Route, ...] = (),
        more_pools: Mapping[str, FakePool] | None = None,
        threads: Threads | None = None,
        locations: Mapping[TableId, str] | None = None,
        tables: Sequence[Table] = (),
        alone: bool = True,
    ) -> None:
        """`lakes` are tables that are there already. `routes` are those of each table, to `more_pools`. `locations` are
        the names of tables that are not registered by their folders. `tables` are registered besides.
        """
        self.clock = clock or HarnessClock()
        self.store = MemoryStore(clock=self.clock) if store is None else store
        self.storages = storages
        self.sources = sources
        made = (
            {}
            if lakes is not None
            else {TableId(name): FakeTable.create(folder / name, clock=self.clock) for name in names}
        )
        self.lakes = {**(lakes or {}), **made}
        self.policies = COMPACT if policies is None else policies
        self.mode = mode
        self.slots = slots
        self.formats = formats or {"fake": FAKE}
        self.drain = drain
        self.budget = budget or DeletionBudget()
        self.routes = routes
        self.more_pools = more_pools or {}
        self.threads = threads or CallersThread()
        self.locations = locations or {}
        self.tables = tables
        self.alone = alone
        self.limits = Limits(slowest=2**50)  # no time passes by itself here
        self.compose()

    def compose(self, pool: FakePool | None = None) -> None:
        """Put a daemon together and start it. After the first time: a new one, on what the old one left."""
        self.recorded = EventRecorder()
        self.held_pool = HoldingPool(slots=self.slots, clock=self.clock)
        self.pool: FakePool = pool or self.held_pool
        tables = [
            Table(
                id=name,
                format="fake",
                location=self.locations.get(name, str(lake.folder)),
                mode=self.mode,
                policies=self.policies,
                budget=self.budget,
                routes=self.routes,
            )
            for name, lake in self.lakes.items()
        ]
        composed = compose(
            tables=[*tables, *self.tables],
            resources=Resources(
                pools={"default": self.pool, **self.more_pools},
                store=self.store,
                clock=self.clock,
                listener=self.recorded,
                formats=self.formats,
                rng=random.Random(0),
                storages=self.storages or Storages(),
                threads=self.threads,
            ),
            drain=self.drain,
            limits=self.limits,
            sources=self.sources,
            alone=self.alone,
        )
        self.daemon, self.replica_lease, self.status = composed.daemon, composed.replica_lease, composed.status
        self.offer = composed.offer
        self.commands: CommandQueue = composed.status.commands._queue
        self.clock.meanwhile = self.keep_replica_lease
        self.daemon.start()

    @property
    def lake(self) -> FakeTable:
        """The table, where there is one."""
        (lake,) = self.lakes.values()
        return lake

    # -- time

    def turn(self) -> None:
        """Let the control thread turn once, and sleep as long as it would."""
        seconds = self.daemon.turn()
        assert 0 < seconds <= 1, "the control thread must show every second that it is alive, and not spin"
        messages, dirty = self.commands._messages, self.commands._dirty
        if not messages and not dirty:
            self.clock.advance(timedelta(seconds=seconds))

    def keep_replica_lease(self) -> None:
        """Do what the daemon's threads do for its right to act."""
        self.replica_lease.renew()
        self.replica_lease.watch()

    def stop(self) -> None:
        """Stop the daemon as a signal does, and let its end take the time that it takes."""
        self.daemon.stop()
        self.until(lambda: self.daemon.phase is ShutdownPhase.OVER)
        self.daemon.run()

    def until(self, happens: Callable[[], bool], *, within: timedelta = timedelta(minutes=5)) -> None:
        """Turn until something has happened; fail if it does not."""
        latest = self.clock.now() + within
        while not happens():
            assert self.clock.now() < latest, f"not within {within}: {self.recorded.lines}"
            self.turn()

    def until_executing(self, step: Step, service: Service = Service.COMPACTION) -> Run:
        """Turn until a run of the service is executing a step, and return it; the step ends by `held_pool.release`."""
        self.held_pool.hold(service, step)
        self.until(lambda: (service, step) in self.held_pool.under_way)
        (run,) = (run for run in self.store.active() if run.service is service)
        return run

    def for_a_while(self, duration: timedelta = timedelta(seconds=30)) -> None:
        """Turn for some time."""
        end = self.clock.now() + duration
        while self.clock.now() < end:
            self.turn()

    # -- what there is

    def write(self, commits: int, table: TableId = TRIPS) -> None:
        """Let a writer commit, and its hook arrive."""
        for _ in range(commits):
            self.lakes[table].write()
        self.commands.hook_arrived(table)

    def decision(self, service: Service, table: TableId = TRIPS) -> Decision:
        """Return the last decision on a service."""
        return self.status._statuses._requests.decisions(table)[service]

    def answered(self, future: Future[_Answer]) -> _Answer:
        """Turn once and return the answer, which must be there at once."""
        self.turn()
        return future.result(timeout=0)

    def runs(self, service: Service = Service.COMPACTION, table: TableId | None = None) -> list[Run]:
        """Return the runs of a service, the oldest first."""
        return [*reversed(self.store.runs(service=service, table=table))]

    def states(self, service: Service = Service.COMPACTION, table: TableId | None = None) -> list[RunState]:
        """Return how the runs of a service stand, the oldest first."""
        return [run.state for run in self.runs(service, table)]

    def at(self, step: Step, service: Service = Service.COMPACTION) -> bool:
        """Whether a run of the service stands at the question for a step, and waits."""
        asking = self.daemon._permit_queue.at(step)
        return any(run.service is service and run.id in asking for run in self.store.active())

    def view(self, table: TableId = TRIPS) -> TableView:
        """Return what the table's metadata says now, read by nobody else's eyes."""
        location = str(self.lakes[table].folder)
        registered = Table(id=table, format="fake", location=location)
        return FAKE.observe(registered, storage_for(location), None, now=self.clock.now()).view

    def completed(self, service: Service, table: TableId = TRIPS) -> list[Instant]:
        """Return the completed instants of a service, the oldest first."""
        return [i for i in self.view(table).timeline.instants if i.stands_for is service and not i.pending]

    def at_rest(self) -> bool:
        """Whether no run is queued or under way, and nothing is pending on any timeline."""
        return not self.store.active() and not any(
            instant.pending for table in self.lakes for instant in self.view(table).timeline.instants
        )
