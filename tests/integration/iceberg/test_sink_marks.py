"""A daemon that cleans a table into which a sink of Kafka Connect and another writer commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.integration.iceberg.deletions import EVERYTHING
from tests.support.catalogs.sqlite_driver import sqlite_driver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.support.daemon.daemon_process import DaemonProcess
    from tests.support.iceberg.trips import Trips

pytestmark = pytest.mark.spark

OFFSETS = "kafka.connect.offsets.control-iceberg.connect-sink"
CLEAN: Mapping[str, Any] = {"clean": {"trigger": {"num_commits": 1000}, "options": EVERYTHING}}


@dataclass
class Sink:
    """Delivers the messages of a topic in batches. Where it goes on is what the table remembers
    (`org.apache.iceberg.connect.channel.Coordinator.lastCommittedOffsetsForTable`).
    """

    table: Trips
    topic: tuple[int, ...] = tuple(range(-1, -41, -1))

    def committed(self) -> int:
        """Return the offset that the newest mark on the way from main's head names, 0 if there is none."""
        by_id = {one.snapshot_id: one for one in self.table.read().snapshots()}
        at = self.table.read().current_snapshot()
        while at is not None:
            found = at.summary.additional_properties.get(OFFSETS) if at.summary is not None else None
            if found is not None:
                return int(found)
            at = by_id.get(at.parent_snapshot_id or -1)
        return 0

    def deliver(self, count: int) -> None:
        """Start anew, and commit the next messages."""
        first = self.committed()
        ids = self.topic[first : first + count]
        columns = {"id": ids, "p": [0] * len(ids), "v": [f"m{one}" for one in ids]}
        schema = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.string())])
        rows = pa.table(columns, schema=schema)
        self.table.read().append(rows, snapshot_properties={OFFSETS: str(first + len(ids))})
        self.table.expected.update({one: f"m{one}" for one in ids})


@dataclass
class WithoutOutages:
    """The table as an owner configures it whose writers never pause."""

    table: Trips

    @property
    def configured(self) -> Mapping[str, Any]:
        return {**self.table.configured, "options": {**self.table.options, "longest_outage": "0s"}}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return self.table.catalogs


def test_a_sink_of_kafka_connect_goes_on_where_it_was_after_a_clean(
    trips: Trips, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Its newest commit is older than those of the other writer. Without the mark it would commit all of its messages
    again, and `found` would see their rows twice.
    """
    sink = Sink(trips)
    sink.deliver(10)
    sink.deliver(10)
    trips.append(commits=3)
    conf = {"spark.driver.extraClassPath": str(sqlite_driver())}
    daemon = daemon_of(WithoutOutages(trips), CLEAN, formats=["iceberg"], conf=conf)
    daemon.start()
    daemon.until(lambda: (daemon.get("/v1/tables/sales.orders") or {}).get("services"))
    assert daemon.post("/v1/tables/sales.orders/services/clean/runs").status_code == 202
    daemon.until_succeeded("clean")

    assert len(trips.read().snapshots()) < 5
    sink.deliver(10)
    assert trips.found() == trips.expected
    assert f"is the newest of the sink that writes {OFFSETS}" in str(daemon.get("/v1/tables/sales.orders/explain"))
