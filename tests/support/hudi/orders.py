"""The Hudi table of most tests on real Spark: its writer, and the writer's own record."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hudi import HudiTable

from lakewarden.executors.contract import Ended, Plan, Refused
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.indexes.indexes import read_indexes, switches
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import sample
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.proof import LockSample
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import LocalStorage, storage_for

if TYPE_CHECKING:
    from tests.support.pool.driver import Driver


@dataclasses.dataclass
class Orders:
    """A merge-on-read table with 30 orders in three partitions, its writer, and the writer's own record."""

    path: Path
    lock: Mapping[str, Any]
    spark: Any
    expected: dict[str, str] = dataclasses.field(default_factory=dict)
    versions: int = 0
    conf: Mapping[str, str] = dataclasses.field(default_factory=dict)
    dead_after: str = "15m"

    @property
    def location(self) -> str:
        """The table's canonical location."""
        return str(self.path)

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of the table."""
        options = {"lock": dict(self.lock), "dead_after": self.dead_after}
        return {"format": "hudi", "location": self.location, "table_options": options}

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in a configuration says of the table itself."""
        options = {"lock": dict(self.lock), "lock_proof": "trusted"}  # most of them were just written
        return {"format": "hudi", "path": self.location, "options": options}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """Return none: the table is found by its path."""
        return {}

    @property
    def address(self) -> str:
        """The table as its writer spells it."""
        return f"file://{self.path}"

    def write(self, *, keys: int = 30) -> None:
        """Upsert the first `keys` orders with a value no earlier commit had."""
        self.versions += 1
        rows = [(f"o{n}", f"v{self.versions}-{n}", self.versions, f"p{n % 3}") for n in range(keys)]
        self._save(rows)
        self.expected.update({key: note for key, note, _, _ in rows})

    def lock_state(self) -> LockSample:
        """Return what the table's lock shows now. Asks again while ZooKeeper is too busy to answer."""
        lock = HudiTableOptions.model_validate({"lock": dict(self.lock)}).lock
        assert lock is not None
        while True:
            with contextlib.suppress(TemporaryError):
                return sample(lock, self.location, LocalStorage())

    def _save(self, rows: Sequence[tuple[str, str, int, str]]) -> None:
        frame = self.spark.createDataFrame(rows, "order_id string, note string, ts long, region string")
        frame.coalesce(1).write.format("hudi").options(**self._options()).mode("append").save(self.address)

    def found(self) -> dict[str, str]:
        """Return what hudi-rs finds: a reader that shares no code with what wrote or serviced the table."""
        rows: dict[str, str] = {}
        for batch in HudiTable(str(self.path)).read():
            for key, note in zip(*(batch.column(name).to_pylist() for name in ("order_id", "note")), strict=True):
                assert key not in rows, f"{key} was found twice"
                rows[key] = note
        return rows

    def timeline(self, pattern: str) -> list[str]:
        """Return the names of the timeline's files that match."""
        return sorted(path.name for path in (self.path / ".hoodie" / "timeline").glob(pattern))

    def view(self) -> TableView:
        """Return the table as the daemon sees it."""
        options = HudiTableOptions.model_validate(dict(self.assigned["table_options"]))
        table = Table(id=TableId("orders"), format="hudi", location=self.location, policies={}, options=options)
        return HUDI.observe(table, storage_for(self.location), None, now=datetime.now(UTC)).view

    def silence(self, instant: str | None) -> None:
        """Let the heartbeat of an instant be as old as one of an executor that died long ago."""
        long_ago = time.time() - 600
        os.utime(self.path / ".hoodie" / ".heartbeat" / str(instant), (long_ago, long_ago))

    def plans_of(self, service: Service) -> set[str]:
        """Return the times of the plans of a service that wait to be carried out."""
        return {instant.time for instant in self.view().timeline.pending(service)}

    def leave_clean(self, driver: Driver, **options: Any) -> Plan:
        """Let a run plan a clean, and leave the plan on the timeline as a kill of its worker does. Return the plan as
        the next run takes it up.
        """
        run = driver.submit(self, Service.CLEAN, **options)
        plan = driver.advance(run, to=Step.EXECUTE)
        assert plan is not None
        file = self.path / ".hoodie" / "timeline" / f"{plan.instant}.clean.requested"
        planned = file.read_bytes()
        driver.pool.answer(run, Step.EXECUTE, Refused(reason="not now"))
        driver.next(run, Ended)
        assert not file.exists(), "a clean that is not carried out leaves no plan"
        file.write_bytes(planned)
        return plan

    def indexes(self) -> Mapping[str, str]:
        """Return the switches of the indexes that the table has now."""
        storage = storage_for(self.location)
        return switches(read_indexes(self.location, read_table_properties(self.location, storage), storage))

    def data_files(self) -> set[str]:
        """Return the names of all base and log files."""
        return {p.name for p in self.path.glob("p*/*") if ".hoodie_partition" not in p.name and p.suffix != ".crc"}

    def _options(self) -> dict[str, str]:
        return {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "order_id",
            "hoodie.datasource.write.partitionpath.field": "region",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": self.lock["url"],
            "hoodie.write.lock.zookeeper.base_path": self.lock["base_path"],
            "hoodie.write.lock.zookeeper.lock_key": self.lock["lock_key"],
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            "hoodie.upsert.shuffle.parallelism": "2",
            **self.conf,
        }
