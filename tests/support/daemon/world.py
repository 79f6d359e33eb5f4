"""A world in which everything can go wrong: daemons on one store, their workers, and the writers of their tables.

Each daemon is the real one, on fake tables, with a pool of its own and its own idea of the time. Nothing happens by
itself: a test lets daemons turn, workers finish a step, writers commit and time pass, in any order. Whatever must never
happen is looked for as it happens and afterwards, and told in `broken`.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from lakewarden.executors.contract import Assignment, Granted, Lost, Refused
from lakewarden.planners.hooks import At
from lakewarden.planners.model.clock import Clock, ManualClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Instant, RunId, Service, State, Step, Timeline
from lakewarden.planners.model.table import Mode, Policy, Scheduling, Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.services import SERVICES
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.events import Listener
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.page.facts import FactsOfTables, facts_of
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.wiring.daemon import ComposedDaemon, compose
from tests.support.doubles.callers_thread import CallersThread
from tests.support.doubles.fake import FAKE, FakeTable
from tests.support.doubles.fake.layout import FakeAction, TimelineFile
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore

_T = TypeVar("_T")
START = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = timedelta(seconds=30)

BEAT_SECONDS = 4.0
"""Whoever works on an instant gives a sign of life this often, well within the format's `WINDOW`."""

MINUTES_OF_WAITING = 10
"""What does not come to rest within so many looks waits for a person."""

COMPACTION = Policy(trigger=NumCommits(at_least=2), schedule=Scheduling.BOTH, grace=timedelta(seconds=30))

POLICIES: Mapping[TableId, Mapping[Service, Policy]] = {
    TableId("trips"): {
        Service.COMPACTION: COMPACTION,
        Service.CLEAN: Policy(trigger=NumCommits(at_least=2)),
    },
    TableId("orders"): {
        Service.COMPACTION: COMPACTION,
        Service.CLUSTERING: Policy(trigger=NumCommits(at_least=3)),
        Service.CLEAN: Policy(trigger=NumCommits(at_least=2)),
        Service.ARCHIVE: Policy(trigger=NumCommits(at_least=5)),
    },
}


@dataclass(kw_only=True)
class OwnClock:
    """One machine's clocks: its wall clock may be wrong, and its monotonic clock began some other time."""

    true: Clock
    wrong_by: timedelta = timedelta(0)
    booted: float = 0.0

    def now(self) -> datetime:
        """Return what the machine takes for the time."""
        return self.true.now() + self.wrong_by

    def monotonic(self) -> float:
        """Return the seconds since the machine was started."""
        return self.true.monotonic() + self.booted


@dataclass(frozen=True, kw_only=True)
class Execution:
    """A worker that is at an instant of a table."""

    replica: str
    run: RunId
    epoch: int
    service: Service


@dataclass(kw_only=True)
class Lake:
    """A fake table, as everybody outside the daemons sees it, and who is at it."""

    id: TableId
    table: FakeTable
    clock: Clock
    rows: int = 0
    at_work: dict[str, Execution] = field(default_factory=dict)
    """The instants that workers of ours are at."""
    writing: set[str] = field(default_factory=set)
    """The instants of writers that live."""
    foreign: set[str] = field(default_factory=set)
    """The instants that an executor of somebody else's is at."""
    _seen: Observation | None = None

    @property
    def location(self) -> str:
        """Where it lies."""
        return str(self.table.folder)

    def timeline(self) -> Timeline:
        """Read the active timeline, with nobody else's eyes."""
        registered = Table(id=self.id, format="fake", location=self.location)
        self._seen = FAKE.observe(registered, LocalStorage(), self._seen, now=self.clock.now())
        return self._seen.view.timeline

    def instant(self, time: str) -> Instant | None:
        """Return an instant of the active timeline."""
        return next((instant for instant in self.timeline().instants if instant.time == time), None)

    def beat(self) -> None:
        """Let everybody who lives and works on an instant give a sign of life, but for cleans."""
        rewriting = (time for time, execution in self.at_work.items() if execution.service is not Service.CLEAN)
        for time in (*self.writing, *self.foreign, *rewriting):
            self.table.beat(time)

    def merged(self) -> list[str]:
        """Return the log files that completed compactions have merged, once for each time."""
        done = self.table._files(FakeAction.COMPACTION, State.COMPLETED)
        plans = [TimelineFile(time=file.time, action=file.action, state=State.REQUESTED) for file in done]
        return [name for plan in plans for name in self.table._content(plan)["files"]]

    def in_need(self) -> Mapping[str, str]:
        """Return each file version that must not be deleted now, with what needs it."""
        made = self.table._made()
        needs = {max(made): "the newest file version"}
        for plan in self.timeline().pending(Service.CLUSTERING):
            for name in self.table.files_named(plan.time):
                needs[name] = f"clustering {plan.time}"
        return needs

    def execute(self, time: str, execution: Execution) -> list[str]:
        """Let a worker of ours be at an instant from now on; return what is wrong with that."""
        found = self.instant(time)
        if found is None or not found.pending:
            return [f"{execution} executes {time}, which is not pending"]
        wrong = []
        other = self.at_work.get(time)
        if other is not None and other.run != execution.run:
            wrong.append(f"{time} is executed by {execution} while {other} is at it")
        if time in self.foreign:
            wrong.append(f"{time} is executed by {execution} while somebody else is at it")
        if execution.service is Service.CLEAN:
            needed = self.in_need()
            to_delete = set(self.table.files_named(time)) & needed.keys()
            wrong += [f"clean {time} deletes {name}, which {needed[name]} needs" for name in sorted(to_delete)]
        self.at_work[time] = execution
        self.table.start(time)
        if execution.service is Service.CLEAN:
            self.table.fall_silent(time)  # nothing but our own rules keeps a second executor away from a clean
        return wrong

    def leave(self, run: RunId) -> None:
        """Know that no worker is at the run any more."""
        for time in [time for time, execution in self.at_work.items() if execution.run == run]:
            del self.at_work[time]

    def failing(self, service: Service, time: str) -> list[str]:
        """Return the writers that a commit of an instant makes fail, told as what is wrong."""
        match service:
            case Service.CLUSTERING:
                writes = self.writing
            case Service.COMPACTION:
                writes = {write for write in self.writing if write < time}
            case _:
                writes = set()
        return [f"{service} {time} is committed while write {write} would fail by it" for write in sorted(writes)]

    def end_write(self, time: str, *, dies: bool) -> None:
        """Let a writer commit its row, or die."""
        self.writing.remove(time)
        if not dies:
            self.table.commit_write(time)
            self.rows += 1

    def end_foreign(self, time: str, *, dies: bool) -> None:
        """Let somebody else's executor complete its instant, or die."""
        self.foreign.remove(time)
        if not dies:
            self.table.complete(time)

    def roll_back(self, *, patient: bool = True) -> None:
        """Let a writer clear away what dead writers left, once their heartbeats have run out."""
        now = self.clock.now()
        for write in self.timeline().writes_in_flight():
            if write.time not in self.writing and not (patient and write.may_be_alive(now)):
                self.table.withdraw(write.time)


class Workers(FakePool):
    """A replica's session workers: a step that was granted takes until `finish`, and its instant is beaten meanwhile.

    They outlive a daemon that is killed for a moment, and a frozen one until they have to die.
    """

    def __init__(self, world: World, replica: str, *, clock: Clock) -> None:
        super().__init__(slots=3, clock=clock)
        self._world = world
        self._replica = replica
        self._taking: list[tuple[RunId, Step, Granted]] = []

    @property
    def runs(self) -> list[RunId]:
        """The runs that they carry out."""
        return list(self._runs)

    def submit(self, assignment: Assignment) -> None:
        """Carry a run out."""
        self._world.assigned[assignment.run] = assignment
        super().submit(assignment)

    def answer(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        """Step back, or begin the step."""
        self.end_what_is_out_of_time()
        service_state = self._runs.get(run)
        if service_state is None or service_state.request.step is not step:
            return
        if isinstance(permit, Refused):
            self._end(run, step, permit)
            return
        self._taking.append((run, step, permit))
        if service_state.request.plan is not None and service_state.request.plan.instant is not None:
            self._world.begun(self._replica, run, step, service_state.request.plan.instant)

    def finish(self) -> None:
        """Let the oldest step that is being taken end, if there is one."""
        if self._taking:
            self._end(*self._taking.pop(0))

    def end_what_is_out_of_time(self) -> None:
        """Die, if nobody has said in time that they may live on."""
        self._end_what_is_out_of_time()

    def _end(self, run: RunId, step: Step, permit: Granted | Refused) -> None:
        super().answer(run, step, permit)
        if run not in self._runs:
            self._world.left(run)

    def _lose(self, run: RunId, lost: Lost) -> None:
        self._taking = [taken for taken in self._taking if taken[0] != run]
        self._world.left(run)
        super()._lose(run, lost)


class Replica:
    """One place where a daemon runs. It may be down, frozen, cut off from the store, or wrong about the time."""

    def __init__(self, world: World, name: str, *, booted: float) -> None:
        self.name = name
        self.clock = OwnClock(true=world.clock, booted=booted)
        self.line = Line(world.store, world.broken)
        self.frozen = False
        self._world = world
        self._composed: ComposedDaemon | None = None
        self._pool: Workers | None = None
        self._orphans: list[Workers] = []
        self._facts = FactsOfTables()

    @property
    def up(self) -> bool:
        """Whether there is a daemon, frozen or not."""
        return self._composed is not None

    @property
    def awake(self) -> bool:
        """Whether there is a daemon, and it turns."""
        return self.up and not self.frozen

    @property
    def composed(self) -> ComposedDaemon:
        """The daemon that is up."""
        assert self._composed is not None
        return self._composed

    @property
    def pools(self) -> list[Workers]:
        """All living workers, of this daemon and of the one before."""
        return [*self._orphans, *([] if self._pool is None else [self._pool])]

    def stale(self) -> Sequence[TableId]:
        """Return the tables that the daemon shows otherwise than a daemon would that keeps no status and no facts."""
        if not self.up:
            return []
        kept = self.composed.status.tables()
        anew = copy(self.composed.status._statuses)
        anew._kept = {}
        fresh = anew.all()
        shown = self._facts.of(kept)
        return [
            one.table.id
            for one, now, facts in zip(kept, fresh, shown, strict=True)
            if one != now or facts != facts_of(now)
        ]

    def start(self) -> None:
        """Start a daemon where there is none, and the store answers."""
        if self.up or self.line.cut:
            return
        self._pool = Workers(self._world, self.name, clock=self.clock)
        self._composed = self._world.composed(self.clock, self.line, self._pool)
        self._composed.daemon.start()

    def crash(self) -> None:
        """Kill the daemon; its workers live on for a moment."""
        if self._pool is not None:
            self._orphans.append(self._pool)
        self._pool, self._composed, self.frozen = None, None, False

    def reap(self) -> None:
        """Let the workers die whose daemon is dead."""
        for pool in self._orphans:
            pool.close()
        self._orphans.clear()

    def thaw(self) -> None:
        """Wake up."""
        self.frozen = False

    def mend(self) -> None:
        """Reach the store again; a daemon that could not start without it is started."""
        self.line.cut = False
        self.start()

    def hear(self, table: TableId) -> None:
        """Take a hook, where there is a daemon to take it."""
        if self.up:
            self.composed.status.mark_dirty(At(location=self._world.lakes[table].location))

    def turn(self) -> None:
        """Let the control thread turn once, if it does."""
        if self.awake:
            self.composed.daemon.turn()

    def work(self) -> None:
        """Let workers finish a step."""
        for pool in self.pools:
            pool.finish()

    def live(self) -> None:
        """Let the daemon's other threads and the workers do what they do by themselves as time passes."""
        for pool in self.pools:
            pool.end_what_is_out_of_time()
        if self.awake:
            self.composed.replica_lease.renew()
            self.composed.replica_lease.watch()


class Line:
    """A daemon's connection to the store, which may be cut."""

    def __init__(self, store: MemoryStore, broken: list[str]) -> None:
        """`broken` is told when the store believes whom it must not."""
        self._store = store
        self._broken = broken
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        if self.cut:
            raise TemporaryError("the store does not answer")
        return getattr(self._store, name)

    def progress(self, run: RunId, *, epoch: int, **news: Any) -> Run:
        """Note how far a run has come."""
        return self._heard(self.__getattr__("progress")(run, epoch=epoch, **news), epoch)

    def end(self, run: RunId, *, epoch: int, **ending: Any) -> Run:
        """End a run."""
        return self._heard(self.__getattr__("end")(run, epoch=epoch, **ending), epoch)

    def _heard(self, run: Run, epoch: int) -> Run:
        newest = self._store.epoch(identity=run.identity, service=run.service)
        if 0 < epoch < newest:
            self._broken.append(
                f"the store believed {run.service} {run.id} under epoch {epoch}, the newest is {newest}"
            )
        return run


class World:
    """Everything there is. `broken` tells what must never have happened."""

    def __init__(self, folder: Path, *, replicas: int = 1) -> None:
        self.clock = ManualClock(START)
        self.store = MemoryStore(self.clock)
        self.lakes = {
            name: Lake(id=name, table=FakeTable.create(folder / name, clock=self.clock), clock=self.clock)
            for name in POLICIES
        }
        self.tables = [
            Table(id=name, format="fake", location=lake.location, mode=Mode.ACT, policies=POLICIES[name])
            for name, lake in self.lakes.items()
        ]
        self.assigned: dict[RunId, Assignment] = {}
        self.broken: list[str] = []
        self.steps: Counter[tuple[Service, Step]] = Counter()
        """How many steps of each kind were begun."""
        self._newest: dict[tuple[TableId, Service], int] = {}
        self._owners: dict[tuple[str, Service, int], ReplicaId | None] = {}
        self._judged: set[RunId] = set()
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self.replicas = [Replica(self, f"replica-{number}", booted=1000.0 * number) for number in range(replicas)]
        """Alone on the store, or several that share the tables."""
        for replica in self.replicas:
            replica.start()

    def composed(self, clock: Clock, store: Any, pool: Workers) -> ComposedDaemon:
        """Put a daemon together."""
        return compose(
            tables=self.tables,
            resources=Resources(
                pools={"default": pool},
                store=store,
                clock=clock,
                listener=Listener(),
                formats={"fake": FAKE},
                rng=random.Random(0),
                threads=CallersThread(),
            ),
            drain=timedelta(0),
            lease=LEASE,
            alone=len(self.replicas) == 1,
        )

    # -- time

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Let something happen after some time."""
        heapq.heappush(self._later, (self.clock.monotonic() + seconds, next(self._order), act))

    def pass_time(self, seconds: float) -> None:
        """Let time pass for everybody; whoever lives gives its signs of life."""
        end = self.clock.monotonic() + seconds
        while (left := end - self.clock.monotonic()) > 1e-6:
            for lake in self.lakes.values():
                lake.beat()
            self.clock.advance(timedelta(seconds=min(BEAT_SECONDS, left)))
            for replica in self.replicas:
                replica.reap()
                replica.live()
            while self._later and self._later[0][0] <= self.clock.monotonic():
                heapq.heappop(self._later)[2]()

    # -- writers, and executors that are not ours

    def write(self, table: TableId, commits: int) -> None:
        """Let a writer commit a row as often, after it has cleared away what dead writers left."""
        lake = self.lakes[table]
        lake.roll_back()
        for _ in range(commits):
            lake.table.write()
            lake.rows += 1

    def begin_write(self, table: TableId, *, seconds: float, dies: bool) -> None:
        """Let a writer write for so long, and then commit, or die without a word."""
        lake = self.lakes[table]
        lake.roll_back()
        time = lake.table.begin_write()
        lake.writing.add(time)
        self.after(seconds, lambda: lake.end_write(time, dies=dies))

    def begin_foreign(self, table: TableId, *, seconds: float, dies: bool) -> None:
        """Let somebody else's executor plan and carry out a compaction for so long, or die meanwhile."""
        lake = self.lakes[table]
        time = lake.table.plan_compaction()
        if time is not None:
            lake.table.start(time)
            lake.foreign.add(time)
            self.after(seconds, lambda: lake.end_foreign(time, dies=dies))

    # -- what workers tell

    def begun(self, replica: str, run: RunId, step: Step, instant: str) -> None:
        """Look at whether a worker may begin this step of an instant."""
        assignment = self.assigned[run]
        lake = self.lakes[assignment.table]
        service = assignment.service
        self.steps[service, step] += 1
        newest = self._newest.setdefault((assignment.table, service), assignment.epoch)
        if assignment.epoch < newest:
            self.broken.append(f"{service} {instant}: {step} under epoch {assignment.epoch}, after {newest}")
        self._newest[assignment.table, service] = max(newest, assignment.epoch)
        if step is (Step.COMMIT if SERVICES[service].joined else Step.EXECUTE):
            execution = Execution(replica=replica, run=run, epoch=assignment.epoch, service=service)
            self.broken += lake.execute(instant, execution)
        if step is Step.COMMIT:
            self.broken += lake.failing(service, instant)

    def left(self, run: RunId) -> None:
        """Know that a worker is done with a run, or dead."""
        for lake in self.lakes.values():
            lake.leave(run)

    # -- what must hold

    def check(self) -> None:
        """Look at what lies in the store and on the tables. Raises AssertionError for whatever must never be."""
        for run in self.store.runs(limit=1000):
            if run.epoch:
                owner = self._owners.setdefault((run.identity, run.service, run.epoch), run.owner)
                assert owner == run.owner, f"epoch {run.epoch} of {run.service} has two owners: {owner}, {run.owner}"
            if run.state is RunState.SUCCEEDED and run.id not in self._judged:
                self._judged.add(run.id)
                self._is_completed(run)
        for row in self.store.rows(ServiceStateRow):
            accused = "another executor" in (row.quarantined or "")
            assert not accused, (
                f"{row.table} {row.service} is in quarantine for what we did ourselves: {row.quarantined}"
            )
        for replica in self.replicas:
            assert not (stale := replica.stale()), f"{replica.name} shows what was: {stale}"
        assert not self.broken, "\n".join(self.broken)

    def _is_completed(self, run: Run) -> None:
        if run.instant is None or (run.outcome or "").startswith("nothing to do"):
            return
        found = self.lakes[run.table].instant(run.instant)
        pending = found is not None and found.pending
        assert not pending, f"the store says that {run.service} {run.instant} has succeeded, and it is pending"

    def at_rest(self) -> bool:
        """Whether nothing is queued or under way, nothing is pending anywhere, and every table is owned."""
        pending = any(instant.pending for lake in self.lakes.values() for instant in lake.timeline().instants)
        owned = self.store.shares().keys() == {lake.location for lake in self.lakes.values()}
        return owned and not pending and not self.store.active()

    def come_to_rest(self) -> None:
        """End every fault, and let time pass until all is done. Raises AssertionError where something is stuck."""
        self._heal()
        for minute in range(90):
            for _ in range(6):
                self._go_on()
            if self.at_rest():
                self._count()
                return
            if minute == MINUTES_OF_WAITING:
                self._resume()
            self.pass_time(10 if minute < MINUTES_OF_WAITING else 60)
        raise AssertionError(f"stuck: {self._stuck()}")

    def _heal(self) -> None:
        while self._later:
            heapq.heappop(self._later)[2]()
        for lake in self.lakes.values():
            lake.roll_back(patient=False)
        for replica in self.replicas:
            replica.frozen, replica.line.cut, replica.clock.wrong_by = False, False, timedelta(0)
            replica.start()

    def _go_on(self) -> None:
        for replica in self.replicas:
            replica.turn()
            replica.work()
            replica.turn()
        self.pass_time(0.5)

    def _resume(self) -> None:
        """Let a person trust every table again."""
        for replica in self.replicas:
            for table in self.lakes:
                replica.composed.status.commands.resume(table)

    def _count(self) -> None:
        """Hold every table against the record of what was written to it."""
        for lake in self.lakes.values():
            assert lake.table.rows == lake.rows, f"{lake.id} holds {lake.table.rows} rows of {lake.rows}"
            merged = lake.merged()
            assert len(merged) == len(set(merged)), f"{lake.id}: log files were merged twice: {merged}"

    def _stuck(self) -> str:
        told = [f"{run.service} {run.id} of {run.owner} {run.state}: {run.outcome}" for run in self.store.active()]
        told += [
            f"{i.action} {i.time} {i.state}" for lk in self.lakes.values() for i in lk.timeline().instants if i.pending
        ]
        told += [
            f"{replica.name} {table} {service}: {decision}"
            for replica in self.replicas
            for table in self.lakes
            for service, decision in replica.composed.status._statuses._requests.decisions(table).items()
        ]
        return "\n".join(told)
