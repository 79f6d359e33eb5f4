"""A table with several concurrent writers: merge-on-read, complex keys, and writes that the test can hold."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.hudi.orders import Orders
from tests.support.waiting import eventually

REJECTED = "HoodieClusteringUpdateException"
CONFLICT = "HoodieWriteConflictException"
MAKES_ROOM = {
    "hoodie.clustering.updates.strategy": ("org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy")
}
GIVES_WAY = {
    "hoodie.write.lock.conflict.resolution.strategy": (
        "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
    )
}
WRITES_AT_ONCE = {
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.datasource.write.row.writer.enable": "false",
    "hoodie.bulkinsert.sort.mode": "NONE",
}
"""A write that reads its rows only when it writes them. Its instant in the metadata table is in flight by then."""
_ROW = "order_id string, note string, ts long, region string"


@dataclasses.dataclass
class Write:
    """One write in a thread of its own. It is begun, and reads none of its rows before it is released."""

    gate: Path
    time: str = ""
    error: Exception | None = None
    thread: threading.Thread | None = None

    def end(self) -> Exception | None:
        """Release it, and return its error: None if it has committed."""
        self.gate.touch()
        assert self.thread is not None
        self.thread.join()
        return self.error


@dataclasses.dataclass
class SharedOrders(Orders):
    """Small files in each of three partitions, and any number of writers."""

    def add(self, region: str, *keys: str) -> None:
        """Upsert these orders of one region."""
        self._keep(self._rows(region, keys))

    def add_batches(self, *regions: str, batches: int = 3) -> None:
        """Insert so many batches of two orders each into every region: a small file for each batch."""
        for batch in range(batches):
            rows = [row for at in regions for row in self._rows(at, [f"{at}-{2 * batch}", f"{at}-{2 * batch + 1}"])]
            self._keep(rows)

    @contextlib.contextmanager
    def held(self, region: str, *keys: str) -> Iterator[Write]:
        """Begin an upsert and hold it. It is requested, and does not say what it touches. It ends with the context."""
        gate = self.path.parent / f"gate-{self.versions}"
        write = Write(gate=gate)
        rows = self._rows(region, keys)
        before = set(self.timeline("*.deltacommit.requested"))

        def attempt() -> None:
            try:
                self._save_when(gate, rows)
            except Exception as error:  # noqa: BLE001 - told by `end`
                write.error = error
            else:
                self.expected.update({key: note for key, note, _, _ in rows})

        write.thread = threading.Thread(target=attempt)
        write.thread.start()
        eventually(lambda: set(self.timeline("*.deltacommit.requested")) != before)
        [begun] = set(self.timeline("*.deltacommit.requested")) - before
        write.time = begun.partition(".")[0]
        eventually(lambda: not self.lock_state().held)  # it writes its first file under the lock
        try:
            yield write
        finally:
            write.end()

    def in_flight_in_metadata(self) -> set[str]:
        """Return the times of the metadata table's instants that are requested and not completed."""
        names = [path.name for path in (self.path / ".hoodie/metadata/.hoodie/timeline").iterdir()]
        begun = {name.partition(".")[0] for name in names if name.endswith(".requested")}
        return begun - {name.partition("_")[0] for name in names}

    def timeline(self, pattern: str) -> list[str]:
        """Return the names of the timeline's files that match, in either layout."""
        if self.conf.get("hoodie.write.table.version") == "6":
            return sorted(path.name for path in (self.path / ".hoodie").glob(pattern))
        return super().timeline(pattern)

    def writing_with(self, conf: Mapping[str, str]) -> SharedOrders:
        """Return the same table with other options of its writers."""
        return dataclasses.replace(self, conf={**self.conf, **conf})

    def read_by_spark(self) -> dict[str, str]:
        """Return the rows that Hudi's own reader finds."""
        rows = self.spark.read.format("hudi").load(self.address).select("order_id", "note").collect()
        assert len({row.order_id for row in rows}) == len(rows)
        return {row.order_id: row.note for row in rows}

    def check_rows(self) -> None:
        """Fail if one of two readers finds other rows than the writers' own record."""
        assert self.found() == self.expected
        assert self.read_by_spark() == self.expected

    def _rows(self, region: str, keys: Sequence[str]) -> list[tuple[str, str, int, str]]:
        self.versions += 1
        return [(key, f"v{self.versions}-{key}", self.versions, region) for key in keys]

    def _keep(self, rows: Sequence[tuple[str, str, int, str]]) -> None:
        self._save(rows)
        self.expected.update({key: note for key, note, _, _ in rows})

    def _save_when(self, gate: Path, rows: Sequence[tuple[str, str, int, str]]) -> None:
        place = str(gate)

        def wait(part: Any) -> Any:
            import os  # noqa: PLC0415 - in Spark's own process
            import time as clock  # noqa: PLC0415

            while not os.path.exists(place):  # noqa: PTH110
                clock.sleep(0.02)
            return part

        waiting = self.spark.sparkContext.parallelize(rows, 1).mapPartitions(wait)
        frame = self.spark.createDataFrame(waiting, _ROW, verifySchema=False)
        frame.write.format("hudi").options(**self._options()).mode("append").save(self.address)

    def _options(self) -> dict[str, str]:
        return {
            **super()._options(),
            "hoodie.datasource.write.recordkey.field": "order_id,region",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
            "hoodie.parquet.small.file.limit": "0",
            **self.conf,
        }
