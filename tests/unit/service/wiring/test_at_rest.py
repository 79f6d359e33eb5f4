"""The control thread does not spin: not while it cannot do what is due, and not for a question that waits."""

from __future__ import annotations

import os
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Observation, Storage
from lakewarden.service.control.loop import COALESCE_SECONDS, STORE_REST_SECONDS
from lakewarden.service.model.run import RunState
from lakewarden.service.store.sql.store import Store
from tests.support.daemon.daemon_harness import DaemonHarness, HarnessClock
from tests.support.doubles.fake import FakeFormat
from tests.support.doubles.fake.layout import TIMELINE
from tests.support.store.memory_store import MemoryStore


class Line:
    """The daemon's connection to its store. It counts the calls, and may be cut."""

    def __init__(self) -> None:
        self.clock = HarnessClock()
        self.store = MemoryStore(clock=self.clock)
        self.calls: Counter[str] = Counter()
        self.cut = False

    def __getattr__(self, name: str) -> Any:
        if self.cut:
            raise TemporaryError("the store does not answer")
        self.calls[name] += 1
        return getattr(self.store, name)


def harness_of(folder: Path, line: Line, **more: Any) -> DaemonHarness:
    return DaemonHarness(folder, store=cast("Store", line), clock=line.clock, **more)


def test_a_daemon_whose_store_is_away_does_not_look_for_it_all_the_time(tmp_path: Path) -> None:
    """Its tables are overdue and stay so. Each replica turned 200 times a second when the database was down."""
    line = Line()
    harness = harness_of(tmp_path, line)
    harness.write(2)
    harness.for_a_while()
    line.cut = True
    harness.clock.advance(timedelta(minutes=10))
    slept = []
    for _ in range(5):
        harness.clock.advance(timedelta(seconds=1))
        slept.append(harness.daemon.turn())
    assert min(slept) >= STORE_REST_SECONDS
    line.cut = False
    harness.write(1)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


def test_a_daemon_without_its_lease_does_not_spin(tmp_path: Path) -> None:
    """Until it is another replica it may act on no table, whatever is due."""
    line = Line()
    harness = harness_of(tmp_path, line)
    harness.write(2)
    harness.for_a_while()
    harness.clock.meanwhile = lambda: None  # its threads stand still, and its lease runs out
    harness.clock.advance(timedelta(minutes=10))
    harness.daemon.turn()
    assert not harness.replica_lease.holds()
    assert harness.daemon.turn() > COALESCE_SECONDS * 10


def test_a_question_that_waits_asks_nothing_of_the_store(tmp_path: Path) -> None:
    """It is judged every 20 ms, for up to ten minutes. Only the look for the runs of dead replicas goes on."""
    line = Line()
    harness = harness_of(tmp_path, line)
    harness.write(3)
    write = harness.lake.begin_write()
    harness.until(lambda: harness.at(Step.PLAN))
    harness.turn()
    line.calls.clear()
    for _ in range(20):
        harness.lake.beat(write)
        harness.turn()
    assert harness.at(Step.PLAN)
    assert set(line.calls) <= {"active"}
    harness.lake.commit_write(write)
    harness.until(lambda: harness.states() == [RunState.SUCCEEDED])


class Slow(Line):
    """A store that answers a grant only after the daemon's lease has ended."""

    slow = False

    def progress(self, *args: Any, **news: Any) -> Any:
        if self.slow and news.get("step") is not None:
            self.slow = False
            self.clock.meanwhile = lambda: None
            self.clock.advance(timedelta(minutes=10))
        return self.store.progress(*args, **news)


def test_a_grant_that_the_store_noted_too_late_is_not_given(tmp_path: Path) -> None:
    """Another replica may have the table by then."""
    line = Slow()
    harness = harness_of(tmp_path, line)
    harness.write(3)
    write = harness.lake.begin_write()
    harness.until(lambda: harness.at(Step.PLAN))
    harness.lake.commit_write(write)
    line.slow = True
    granted = len([one for one in harness.recorded.lines if one.endswith("plan Granted")])
    for _ in range(200):
        harness.daemon.turn()
        if not line.slow:
            break
    assert not line.slow, "the grant was noted"
    assert len([one for one in harness.recorded.lines if one.endswith("plan Granted")]) == granted
    assert harness.held_pool.under_way == []


class SlowFormat(FakeFormat):
    """Reads a table for so long that the daemon's lease has ended."""

    def __init__(self, clock: HarnessClock) -> None:
        self.clock = clock
        self.slow = False

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: Any) -> Observation:
        if self.slow:
            self.slow = False
            self.clock.meanwhile = lambda: None
            self.clock.advance(timedelta(minutes=2))
        return super().observe(table, storage, previous, now=now)


def test_a_step_is_refused_if_the_lease_ends_while_the_table_is_read(tmp_path: Path) -> None:
    """Nothing of it is noted: the run belongs to another replica by then."""
    line = Line()
    reading = SlowFormat(line.clock)
    harness = harness_of(tmp_path, line, formats={"fake": reading})
    harness.write(3)
    write = harness.lake.begin_write()
    harness.until(lambda: harness.at(Step.PLAN))
    harness.lake.commit_write(write)
    reading.slow = True
    line.calls.clear()
    for _ in range(200):
        harness.daemon.turn()
        if not reading.slow:
            break
    assert not reading.slow, "the table was read"
    assert not line.calls["progress"]
    assert "Granted" not in harness.recorded.lines[-1]


class CountedFormat(FakeFormat):
    """Counts how often a table is read whole."""

    def __init__(self) -> None:
        self.reads = 0

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: Any) -> Observation:
        self.reads += 1
        return super().observe(table, storage, previous, now=now)


def test_a_run_whose_ending_stays_unknown_is_not_looked_for_every_second(tmp_path: Path) -> None:
    """Its executor beats for hours on a large table, and each attempt reads the table."""
    counted = CountedFormat()
    harness = DaemonHarness(tmp_path, formats={"fake": counted})
    harness.write(3)
    run = harness.until_executing(Step.EXECUTE)
    harness.pool.give_up(run.id, "no answer")
    instant = harness.store.runs()[0].instant
    assert instant is not None
    long_ago = harness.clock.now().timestamp()  # a folder that was changed just now is read each time
    os.utime(harness.lake.folder / TIMELINE, (long_ago, long_ago))

    def for_minutes(minutes: int) -> None:
        for _ in range(minutes * 12):
            harness.lake.beat(instant)
            harness.for_a_while(timedelta(seconds=5))

    for_minutes(5)
    assert harness.store.run(run.id).state is RunState.UNKNOWN  # type: ignore[union-attr]
    before = counted.reads
    for_minutes(10)
    assert counted.reads - before < 100
    harness.lake.fall_silent(instant)
    harness.until(lambda: harness.runs(Service.COMPACTION)[0].state.ended)
