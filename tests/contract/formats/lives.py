"""The same small life of a table, lived on every format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from lakewarden.planners.formats.fake import FAKE, FakeTable
from lakewarden.planners.formats.fake.options import FakeTableOptions
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions, ZookeeperLock
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.deletion.plans_beside import (
    DeletionPlan,
    PlanBeside,
    content_of,
    file_of,
    instant_of,
    plan_beside,
)
from lakewarden.planners.formats.iceberg.metadata.timeline import RUN_ID, SERVICE
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import Observation, TableFormat
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import LocalStorage, storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi_table import HudiTable
from tests.support.iceberg_table import IcebergTable

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Life(Protocol):
    """What can happen to a table, in any format's own files. Steps that make no sense now do nothing.

    `shows_writes` says whether a write is seen before it is committed, `shows_plans` of which services a plan is, and
    `plans_at_once` whether there may be several of one service. `policies` are those of the registered table.
    """

    format: TableFormat
    location: str
    clock: ManualClock
    locked: Settings
    unlocked: Settings
    shows_writes: bool
    shows_plans: frozenset[Service]
    plans_at_once: bool
    policies: Mapping[Service, Policy]

    def begin_write(self) -> str: ...
    def commit_write(self, time: str) -> None: ...
    def plan(self, service: Service, run: RunId | None = None) -> str: ...
    def start(self, service: Service, time: str) -> None: ...
    def complete(self, service: Service, time: str) -> None: ...
    def withdraw(self, service: Service, time: str) -> None: ...
    def beat(self, time: str) -> None: ...
    def damage(self, service: Service, time: str) -> str: ...
    def make_again(self) -> None: ...
    def let_time_pass(self) -> None: ...


class ShowsAll:
    """What holds where everything that is begun is on the timeline."""

    shows_writes = True
    shows_plans = frozenset({Service.COMPACTION, Service.CLEAN})
    plans_at_once = True
    policies: Mapping[Service, Policy] = {}


class HudiLife(ShowsAll):
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

    def damage(self, service: Service, time: str) -> str:
        path = self.table.timeline / f"{time}.{service.value}.requested"
        self.table.put(path.name, path.read_bytes()[:-20])
        return path.name

    def make_again(self) -> None:
        self.clock.advance(timedelta(minutes=1))
        Path(self.location).rename(f"{self.location}-dropped")
        self.table = self._made()

    def let_time_pass(self) -> None:
        self.clock.advance(timedelta(seconds=5))


class FakeLife(ShowsAll):
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

    def damage(self, service: Service, time: str) -> str:
        path = self.table.folder / "timeline" / f"{time}.{service.value}.requested"
        path.write_bytes(path.read_bytes()[:-5])
        self._aged()
        return path.name

    def make_again(self) -> None:
        Path(self.location).rename(f"{self.location}-dropped")
        self.table = FakeTable.create(Path(self.location), clock=self.clock)
        self._aged()

    def let_time_pass(self) -> None:
        self.clock.advance(timedelta(seconds=5))


class IcebergLife:
    """A life of an Iceberg table of a Hadoop catalog. Nobody sees a write or a rewrite before it is committed; the plan
    of a clean lies beside the table.
    """

    format: TableFormat = ICEBERG
    locked: Settings = IcebergTableOptions()
    unlocked: Settings = IcebergTableOptions()
    shows_writes = False
    shows_plans = frozenset({Service.CLEAN})
    plans_at_once = False

    def __init__(self, folder: Path) -> None:
        self.location, self.clock = str(folder), ManualClock(_START)
        self.table = IcebergTable(folder, clock=self.clock)
        self.policies: Mapping[Service, Policy] = {
            service: Policy(trigger=NumCommits(at_least=1), options=options())
            for service, options in ICEBERG.services.items()
        }
        self._begun = 0

    def begin_write(self) -> str:
        self._begun += 1
        return f"begun-{self._begun}"

    def commit_write(self, time: str) -> None:
        self.clock.advance(timedelta(seconds=1))
        self.table.append()

    def plan(self, service: Service, run: RunId | None = None) -> str:
        self.clock.advance(timedelta(seconds=1))
        if service is Service.COMPACTION:
            return self.begin_write()
        at, by = self.clock.now(), run or RunId("cleaning")
        instant = instant_of(service, by, at)
        plan = DeletionPlan(
            instant=instant, run=by, requested_at=at, state=State.REQUESTED, snapshots=(1,), files=2, data_files=1
        )
        self._write(replace(self._beside(service), pending=plan))
        return instant

    def start(self, service: Service, time: str) -> None:
        beside = self._beside(service)
        if service is Service.CLEAN and beside.pending is not None:
            self._write(replace(beside, pending=replace(beside.pending, state=State.INFLIGHT)))

    def complete(self, service: Service, time: str) -> None:
        self.clock.advance(timedelta(seconds=1))
        if service is Service.CLEAN:
            self._write(self._beside(service).with_completed(self.clock.now()))
        else:
            self.table.rewrite(summary={RUN_ID: "run", SERVICE: service.value})

    def withdraw(self, service: Service, time: str) -> None:
        self._write(replace(self._beside(service), pending=None))

    def beat(self, time: str) -> None:
        """Iceberg knows no heartbeats."""

    def damage(self, service: Service, time: str) -> str:
        path = Path(file_of(service, self.location))
        path.write_bytes(path.read_bytes()[:-20])
        return path.name

    def make_again(self) -> None:
        self.clock.advance(timedelta(minutes=1))
        Path(self.location).rename(f"{self.location}-dropped")
        self.table = IcebergTable(Path(self.location), clock=self.clock)

    def let_time_pass(self) -> None:
        self.clock.advance(timedelta(seconds=5))

    def _beside(self, service: Service) -> PlanBeside:
        found = plan_beside(service, self.location, LocalStorage(), uuid=self.table.uuid)
        return found or PlanBeside(service=service, table=self.table.uuid)

    def _write(self, beside: PlanBeside) -> None:
        Path(file_of(beside.service, self.location)).write_bytes(content_of(beside))


LIVES: dict[str, Callable[[Path], Life]] = {
    "hudi, layout 1": lambda folder: HudiLife(folder, 6),
    "hudi, layout 2": lambda folder: HudiLife(folder, 9),
    "iceberg": IcebergLife,
    "fake": FakeLife,
}

IN_FLIGHT = [name for name in LIVES if name != "iceberg"]
"""Those whose writes and plans are on the timeline before they are committed."""

PLANS = [(name, Service.COMPACTION) for name in IN_FLIGHT] + [(name, Service.CLEAN) for name in LIVES]
"""Each with the services whose plans are."""


def observed(life: Life, previous: Observation | None = None, *, options: Settings | None = None) -> Observation:
    """Look at the table, now."""
    table = table_of(life, options=options)
    return life.format.observe(table, storage_for(life.location), previous, now=life.clock.now())


def table_of(life: Life, *, options: Settings | None = None) -> Table:
    """Return the table as it would be registered."""
    return Table(
        id=TableId("trips"),
        format=life.format.name,
        location=life.location,
        options=options or life.locked,
        policies=life.policies,
    )
