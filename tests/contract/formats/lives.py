"""The same small history of a table, for every format."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakewarden.planners.formats.directory import DIRECTORY
from lakewarden.planners.formats.directory.options import DirectoryTableOptions
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
from lakewarden.planners.formats.paimon import PAIMON
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import Observation, TableFormat
from lakewarden.planners.settings import Settings
from lakewarden.planners.storage import LocalStorage, storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.directory.directories import age, put
from tests.support.doubles.fake import FAKE, FakeTable
from tests.support.doubles.fake.options import FakeTableOptions
from tests.support.hudi.hudi_table import HudiTable
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.paimon.paimon_table import PaimonTable

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _policies(table_format: TableFormat, **options: Mapping[str, Any]) -> Mapping[Service, Policy]:
    """Return a policy for each service, with options for those that need some."""
    return {
        service: Policy(trigger=NumCommits(at_least=1), options=kind.model_validate(options.get(service.value, {})))
        for service, kind in table_format.services.items()
    }


class Life:
    """The changes that can happen to a table, in any format's own files. A step that is not possible now does nothing.

    `shows_writes` says whether a write is visible before it is committed. `shows_plans` are the services with visible
    plans. `plans_at_once` says whether there may be several plans of one service. `policies` are those of the
    registered table. Unless a format says otherwise, nothing is visible before it is committed.
    """

    format: TableFormat
    locked: Settings
    unlocked: Settings
    shows_writes = False
    shows_plans: frozenset[Service] = frozenset()
    plans_at_once = False
    policies: Mapping[Service, Policy] = {}
    table: Any

    def __init__(self, folder: Path) -> None:
        self.location, self.clock, self._begun = str(folder), ManualClock(_START), 0
        self.table = self._made()

    def _made(self) -> Any:
        raise NotImplementedError

    def begin_write(self) -> str:
        self._begun += 1
        return f"part-{self._begun}"

    def commit_write(self, time: str) -> None:
        self.clock.advance(timedelta(seconds=1))
        self.table.append()

    def plan(self, service: Service, run: RunId | None = None) -> str:
        return Life.begin_write(self)

    def start(self, service: Service, time: str) -> None:
        """Nothing of it is visible."""

    def complete(self, service: Service, time: str) -> None:
        raise NotImplementedError

    def withdraw(self, service: Service, time: str) -> None:
        """Nothing of it is visible."""

    def beat(self, time: str) -> None:
        """Only some formats have heartbeats."""

    def damage(self, service: Service, time: str) -> str:
        raise NotImplementedError

    def make_again(self) -> None:
        self.clock.advance(timedelta(minutes=1))
        Path(self.location).rename(f"{self.location}-dropped")
        self.table = self._made()

    def let_time_pass(self) -> None:
        self.clock.advance(timedelta(seconds=5))


class ShowsAll(Life):
    """A format with everything that is begun on its timeline."""

    shows_writes = True
    shows_plans = frozenset({Service.COMPACTION, Service.CLEAN})
    plans_at_once = True


class HudiLife(ShowsAll):
    """The history of a Hudi table, in one of the two layouts of its timeline."""

    format: TableFormat = HUDI
    locked: Settings = HudiTableOptions(
        lock=ZookeeperLock(provider="zookeeper", url="zk:2181", base_path="/hudi", lock_key="trips")
    )
    unlocked: Settings = HudiTableOptions()

    table: HudiTable

    def __init__(self, folder: Path, version: int) -> None:
        self._version = version
        super().__init__(folder)

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


class FakeLife(ShowsAll):
    """The history of a fake table. Its folders get the clock's time, as the storage's own clock would give it."""

    format: TableFormat = FAKE
    locked: Settings = FakeTableOptions()
    unlocked: Settings = FakeTableOptions(locked=False)

    table: FakeTable

    def _made(self) -> FakeTable:
        table = FakeTable.create(Path(self.location), clock=self.clock)
        self._aged()
        return table

    def _aged(self) -> None:
        self.clock.advance(timedelta(seconds=1))
        now = self.clock.now().timestamp()
        for folder in (Path(self.location) / "timeline", Path(self.location)):
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


class IcebergLife(Life):
    """The history of an Iceberg table of a Hadoop catalog. A write or a rewrite is not visible before it is committed.
    The plan of a clean lies beside the table.
    """

    format: TableFormat = ICEBERG
    locked: Settings = IcebergTableOptions()
    unlocked: Settings = IcebergTableOptions()
    shows_plans = frozenset({Service.CLEAN})
    policies = _policies(ICEBERG, clustering={"sort_order": "id"})
    table: IcebergTable

    def _made(self) -> IcebergTable:
        return IcebergTable(Path(self.location), clock=self.clock)

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

    def damage(self, service: Service, time: str) -> str:
        path = Path(file_of(service, self.location))
        path.write_bytes(path.read_bytes()[:-20])
        return path.name

    def _beside(self, service: Service) -> PlanBeside:
        found = plan_beside(service, self.location, LocalStorage(), uuid=self.table.uuid)
        return found or PlanBeside(service=service, table=self.table.uuid)

    def _write(self, beside: PlanBeside) -> None:
        Path(file_of(beside.service, self.location)).write_bytes(content_of(beside))


class PaimonLife(Life):
    """A life of a Paimon table. A write or a compaction is not visible before it is committed, and no service has a
    plan.
    """

    format: TableFormat = PAIMON
    locked: Settings = PaimonTableOptions()
    unlocked: Settings = PaimonTableOptions()
    policies = _policies(PAIMON)
    table: PaimonTable

    def _made(self) -> PaimonTable:
        return PaimonTable(Path(self.location), clock=self.clock)

    def complete(self, service: Service, time: str) -> None:
        self.clock.advance(timedelta(seconds=1))
        if service is Service.COMPACTION:
            self.table.compact()
        else:
            self.table.append()
            self.table.expire(self.table.newest)


class DirectoryLife(Life):
    """A life of a plain directory. A write is a part in progress before it is finished, and there are no plans.

    A marker stands in place of the end of a service.
    """

    format: TableFormat = DIRECTORY
    locked: Settings = DirectoryTableOptions()
    unlocked: Settings = DirectoryTableOptions()
    shows_writes = True
    plans_at_once = True
    policies = _policies(DIRECTORY)

    def _made(self) -> None:
        self._put("part-0")
        age(Path(self.location), self.clock.now())

    def _put(self, name: str) -> None:
        self.clock.advance(timedelta(seconds=1))
        put(Path(self.location) / "dt=2026-03-01" / name, self.clock.now())

    def begin_write(self) -> str:
        name = super().begin_write()
        self._put(f".{name}.inprogress.7")
        return name

    def commit_write(self, time: str) -> None:
        self.clock.advance(timedelta(seconds=1))
        folder = Path(self.location) / "dt=2026-03-01"
        (folder / f".{time}.inprogress.7").rename(folder / time)
        age(folder, self.clock.now())

    def complete(self, service: Service, time: str) -> None:
        self._put("_SUCCESS")


LIVES: dict[str, Callable[[Path], Life]] = {
    "hudi, layout 1": lambda folder: HudiLife(folder, 6),
    "hudi, layout 2": lambda folder: HudiLife(folder, 9),
    "iceberg": IcebergLife,
    "paimon": PaimonLife,
    "directory": DirectoryLife,
    "fake": FakeLife,
}

WITH_METADATA = [name for name in LIVES if name != "directory"]
"""The formats with an identity of their own."""

IN_FLIGHT = [name for name in WITH_METADATA if name not in ("iceberg", "paimon")]
"""The formats with their writes and plans on the timeline before they are committed."""

PLANS = [(name, Service.COMPACTION) for name in IN_FLIGHT] + [
    (name, Service.CLEAN) for name in WITH_METADATA if name != "paimon"
]
"""The formats, each with the services with plans on the timeline."""


def observed(life: Life, previous: Observation | None = None, *, options: Settings | None = None) -> Observation:
    """Observe the table, now."""
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
