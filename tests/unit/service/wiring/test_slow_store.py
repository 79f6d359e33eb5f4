"""A storage that takes its time holds up its own tables and no others."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.control.commands import RunGiven
from lakewarden.service.model.run import RunState
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.state.readers.port import InlineReaders
from lakewarden.service.wiring.daemon import compose
from tests.support.daemon.daemon_harness import COMPACT, EventRecorder, HarnessClock
from tests.support.daemon.late_readers import LateReaders
from tests.support.doubles.callers_thread import CallersThread
from tests.support.doubles.fake import FAKE, FakeTable
from tests.support.doubles.fake_pool import FakePool
from tests.support.store.memory_store import MemoryStore

NEAR, FAR = TableId("near"), TableId("far")


class Scene:
    """A daemon with a table that is read at once, and one whose looks are answered when the test says so."""

    def __init__(self, folder: Path, *, writes: int = 3) -> None:
        self.clock, self.store = HarnessClock(), MemoryStore()
        lakes = {name: FakeTable.create(folder / name, clock=self.clock) for name in (NEAR, FAR)}
        for lake in lakes.values():
            for _ in range(writes):
                lake.write()
        inline = InlineReaders(formats={"fake": FAKE}, storage_for=lambda _: LocalStorage(), clock=self.clock)
        self.readers = LateReaders(inline, slow={FAR})
        self.composed = compose(
            tables=[
                Table(id=name, format="fake", location=str(lake.folder), mode=Mode.ACT, policies=COMPACT)
                for name, lake in lakes.items()
            ],
            resources=Resources(
                formats={FAKE.name: FAKE},
                pools={"default": FakePool(slots=2, clock=self.clock)},
                store=self.store,
                clock=self.clock,
                listener=EventRecorder(),
                readers=self.readers,
                threads=CallersThread(),
                rng=random.Random(0),
            ),
            drain=timedelta(0),
        )
        self.clock.meanwhile = self.composed.replica_lease.renew
        self.composed.daemon.start()

    def turn(self, times: int = 1) -> None:
        for _ in range(times):
            self.clock.advance(timedelta(seconds=self.composed.daemon.turn()))

    def runs(self) -> dict[TableId, RunState]:
        return {run.table: run.state for run in self.store.runs()}


def test_other_tables_are_served_while_a_store_does_not_answer(tmp_path: Path) -> None:
    """The table that is far away is served as well, once its storage answers, however late each of its answers is."""
    scene = Scene(tmp_path)
    scene.turn(100)
    assert scene.runs() == {NEAR: RunState.SUCCEEDED}
    far = scene.composed.status.table(FAR)
    assert far is not None
    assert far.failure is None  # slow, and not in trouble
    assert len(scene.readers.asked) == 1

    for _ in range(20):
        if scene.readers.asked:
            scene.readers.look()
        scene.turn(10)
    assert scene.runs()[FAR] is RunState.SUCCEEDED


def test_a_permit_is_given_on_a_look_that_took_long(tmp_path: Path) -> None:
    """An answer that comes long after the question is taken: else a table that takes seconds to read is not served."""
    scene = Scene(tmp_path)
    while FAR not in scene.runs():
        scene.turn()
        if scene.readers.asked:
            scene.readers.look()
    scene.turn(3)
    (run,) = (run for run in scene.store.runs() if run.table == FAR)
    assert run.id in scene.composed.status.waiting()
    scene.clock.advance(timedelta(seconds=12))
    scene.readers.look()
    scene.turn()
    assert run.id not in scene.composed.status.waiting() or scene.store.runs()[0].step is not None


def test_a_person_who_asks_for_a_run_waits_for_the_table_and_nobody_else_does(tmp_path: Path) -> None:
    """The control thread goes on meanwhile."""
    scene = Scene(tmp_path, writes=1)
    asked = scene.composed.status.commands.request_run(FAR, Service.COMPACTION, by="a person")
    scene.turn(10)
    assert not asked.done()
    while scene.readers.asked:
        scene.readers.look()
        scene.turn()
        if asked.done():
            break
    assert isinstance(asked.result(timeout=0), RunGiven)
