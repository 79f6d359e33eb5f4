"""The same small life of a table, lived on every format."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from lakewarden.planners.formats.fake import FAKE, FakeTable
from lakewarden.planners.formats.fake.options import FakeTableOptions
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, TableFormat
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import storage_for
from tests.support.hudi_table import HudiTable

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Life(Protocol):
    """What can happen to a table, in any format's own files. Steps that make no sense now do nothing."""

    format: TableFormat
    location: str
    clock: ManualClock
    locked: Settings
    unlocked: Settings

    def begin_write(self) -> str: ...
    def commit_write(self, time: str) -> None: ...
    def plan(self, service: Service, run: RunId | None = None) -> str: ...
    def start(self, service: Service, time: str) -> None: ...
    def complete(self, service: Service, time: str) -> None: ...
    def withdraw(self, service: Service, time: str) -> None: ...
    def beat(self, time: str) -> None: ...
    def damage(self, service: Service, time: str) -> None: ...
    def make_again(self) -> None: ...
    def let_time_pass(self) -> None: ...


class HudiLife:
    """A Hudi table's life, in one of the two layouts of its timeline."""

    format: TableFormat = HUDI
    locked: Settings = HudiTableOptions(
        lock=ZookeeperLock(provider="zookeeper", url="zk:2181", base_path="/hudi", lock_key="trips")
    )
    unlocked: Settings = HudiTableOptions()

    def __init__(self, folder: Path, version: int) -> None:
        self.location, self.clock, self._version = str(folder), ManualClock(_START), version
        self.table = self._made()

    def _made(self) -> HudiTable:
        return HudiTable(Path(self.location), version=self._version, clock=self.clock, zone=UTC)

    def begin_write(self) -> str:
        return self.table.begin_write()

    def commit_write(self, time: str) -> None:
        self.table.commit_write(time)

    def plan(self, service: Service, run: RunId | None = None) -> str:
        return self.table.plan_compaction(run=run) if service is Service.COMPACTION else self.table.plan_clean()

    def start(self, service: Service, time: str) -> None:
        self.table.start(time, service.value)

    def complete(self, service: Service, time: str) -> None:
        if service is Service.CLEAN:
            self.table.complete_clean(time, seen=time)
        else:
            self.table.complete(time, service.value)

    def withdraw(self, service: Service, time: str) -> None:
        for file in sorted(self.table.timeline.glob(f"{time}.*")):
            self.table.remove(file.name)

    def beat(self, time: str) -> None:
        self.table.beat(time)

    def damage(self, service: Service, time: str) -> None:
        path = self.table.timeline / f"{time}.{service.value}.requested"
        self.table.put(path.name, path.read_bytes()[:-20])

    def make_again(self) -> None:
        self.clock.advance(timedelta(minutes=1))
        Path(self.location).rename(f"{self.location}-dropped")
        self.table = self._made()

    def let_time_pass(self) -> None:
        self.clock.advance(timedelta(seconds=5))


class FakeLife:
    """A fake table's life. Its folders are given the clock's time, as the storage's own clock would."""

    format: TableFormat = FAKE
    locked: Settings = FakeTableOptions()
    unlocked: Settings = FakeTableOptions(locked=False)

    def __init__(self, folder: Path) -> None:
        self.location, self.clock = str(folder), ManualClock(_START)
        self.table = FakeTable.create(folder, clock=self.clock)
        self._aged()

    def _aged(self) -> None:
        self.clock.advance(timedelta(seconds=1))
        now = self.clock.now().timestamp()
        for folder in (self.table.folder / "timeline", self.table.folder):
            os.utime(folder, (now, now))

    def begin_write(self) -> str:
        time = self.table.begin_write()
        self._aged()
        return time

    def commit_write(self, time: str) -> None:
        self.table.commit_write(time)
        self._aged()

    def plan(self, service: Service, run: RunId | None = None) -> str:
        self.table.write()
        if service is Service.CLEAN:
            self._compact()
        plan = self.table.plan_compaction if service is Service.COMPACTION else self.table.plan_clean
        time = plan(run=run)
        assert time is not None
        self._aged()
        return time

    def _compact(self) -> None:
        time = self.table.plan_compaction()
        assert time is not None
        self.table.start(time)
        self.table.complete(time)

    def start(self, service: Service, time: str) -> None:
        self.table.start(time)
        self._aged()

    def complete(self, service: Service, time: str) -> None:
        self.table.complete(time)
        self._aged()

    def withdraw(self, service: Service, time: str) -> None:
        self.table.withdraw(time)
        self._aged()

    def beat(self, time: str) -> None:
        self.table.beat(time)

    def damage(self, service: Service, time: str) -> None:
        path = self.table.folder / "timeline" / f"{time}.{service.value}.requested"
        path.write_bytes(path.read_bytes()[:-5])
        self._aged()

    def make_again(self) -> None:
        Path(self.location).rename(f"{self.location}-dropped")
        self.table = FakeTable.create(Path(self.location), clock=self.clock)
        self._aged()

    def let_time_pass(self) -> None:
        self.clock.advance(timedelta(seconds=5))


LIVES: dict[str, Callable[[Path], Life]] = {
    "hudi, layout 1": lambda folder: HudiLife(folder, 6),
    "hudi, layout 2": lambda folder: HudiLife(folder, 9),
    "fake": FakeLife,
}


def observed(life: Life, previous: Observation | None = None, *, options: Settings | None = None) -> Observation:
    """Look at the table, now."""
    table = table_of(life, options=options)
    return life.format.observe(table, storage_for(life.location), previous, now=life.clock.now())


def table_of(life: Life, *, options: Settings | None = None) -> Table:
    """Return the table as it would be registered."""
    name = TableId("trips")
    return Table(id=name, format=life.format.name, location=life.location, options=options or life.locked)
