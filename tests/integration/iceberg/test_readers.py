"""Streams of Spark beside Iceberg's clean: what a declared reader needs stays, and what an undeclared one loses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter
from pyspark.errors import IllegalArgumentException, StreamingQueryException

from lakewarden.executors.contract import Assignment, Failed, FailureKind, Granted, Outcome, Succeeded
from lakewarden.executors.programs.iceberg.clean import Clean
from lakewarden.executors.worker.runs import carry_out
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.clock import ManualClock, SystemClock
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.storage.local import LocalStorage
from lakewarden.planners.triggers import NumCommits
from tests.integration.iceberg.deletions import AT_ONCE, EVERYTHING, Deletions

if TYPE_CHECKING:
    from tests.support.iceberg.trips import Trips

pytestmark = pytest.mark.spark

LATER = timedelta(hours=2)
DECLARED: Mapping[str, Any] = {"readers": [{"name": "stream", "longest_lag": "1h"}]}


@dataclass
class Stream:
    """A query of Structured Streaming with its checkpoint; each start is a new query."""

    trips: Trips
    checkpoint: Path
    trigger: Mapping[str, bool] = field(default_factory=lambda: {"once": True})
    options: Mapping[str, str] = field(default_factory=dict)

    def read(self) -> dict[int, str]:
        """Start it, and return what it reads until it has caught up."""
        rows: dict[int, str] = {}

        def keep(frame: Any, _: int) -> None:
            rows.update({row["id"]: row["v"] for row in frame.collect()})

        reader = self.trips.lake.spark.readStream.options(**self.options)
        query = reader.table(self.trips.sql).writeStream.foreachBatch(keep)
        query = query.option("checkpointLocation", str(self.checkpoint)).trigger(**self.trigger)
        query.start().awaitTermination()
        return rows


def cleaned(trips: Trips, *, keeps: int = 1, **table_options: Any) -> Outcome:
    """Clean the table when everything in it is two hours old. Keep so many snapshots, and nothing else but for these
    options.
    """
    kept = Deletions(trips, table_options={**AT_ONCE, **table_options})
    assignment = Assignment(
        run=RunId("later"), epoch=1, table=TableId("trips"), service=Service.CLEAN,
        service_options={**EVERYTHING, "min_snapshots_to_keep": keeps}, **kept.assigned,
    )  # fmt: skip
    clock = ManualClock(SystemClock().now() + LATER)
    return carry_out(Clean(clock=clock), trips.lake.spark, assignment, LocalStorage(), lambda _step, _plan: Granted())


def appended(trips: Trips) -> dict[int, str]:
    """Append to the table, and return what is new."""
    before = set(trips.expected)
    trips.append()
    return {id_: value for id_, value in trips.expected.items() if id_ not in before}


def test_a_stream_that_is_declared_goes_on_at_its_append_whatever_was_rewritten_since(
    trips: Trips, tmp_path: Path
) -> None:
    """It has read everything, and stands at the last append. Two rewrites followed, and all of it is older than the
    lag: the append stays, with what leads from it to the head. What came before expires.
    """
    table, stream = Deletions(trips), Stream(trips, tmp_path)
    assert stream.read() == trips.expected
    stands = table.snapshots()[-1]
    table.rewrite()
    table.rewrite()
    outcome = cleaned(trips, **DECLARED)
    assert isinstance(outcome, Succeeded), outcome
    assert table.snapshots()[0] == stands
    assert len(table.snapshots()) == 3
    assert stream.read() == {}
    new = appended(trips)
    assert stream.read() == new
    assert trips.found() == trips.expected


def read_after(trips: Trips, branch: str, snapshot: int) -> set[int]:
    """Return the ids of the rows that an incremental scan of Iceberg finds on a branch after a snapshot."""
    java = Deletions(trips).java()
    found = java.newIncrementalAppendScan().useBranch(branch).fromSnapshotExclusive(snapshot).planFiles()
    with contextlib.closing(found):
        tasks, paths = found.iterator(), list[str]()
        while tasks.hasNext():
            paths.append(str(tasks.next().file().location()))
    return {row["id"] for row in trips.lake.spark.read.parquet(*paths).collect()} if paths else set()


def test_a_reader_of_a_branch_goes_on_there_after_a_clean(trips: Trips) -> None:
    """It stands at an older snapshot of its branch. Main loses its own snapshots. Without the declaration the reader's
    snapshot expires, too, and Iceberg refuses to read on.
    """
    table, spark = Deletions(trips), trips.lake.spark
    table.java().manageSnapshots().createBranch("audit", table.snapshots()[-1]).commit()
    heads = []
    for id_ in (1000, 1001, 1002):
        spark.sql(f"INSERT INTO {trips.sql}.branch_audit SELECT {id_}, p, v FROM {trips.sql} LIMIT 1")
        heads.append(int(table.java().refs().get("audit").snapshotId()))
    trips.append(commits=2)
    of_main = table.snapshots()[-2]
    declared = {"name": "auditors", "longest_lag": "3h", "kind": "scan"}

    refused = cleaned(trips, readers=[{**declared, "branch": "adit"}])
    assert isinstance(refused, Failed), refused
    assert refused.kind is FailureKind.PERMANENT
    assert "reader auditors is declared on the branch 'adit'" in refused.reason
    assert of_main in table.snapshots()
    assert isinstance(cleaned(trips, readers=[{**declared, "branch": "audit"}]), Succeeded)
    assert of_main not in table.snapshots()
    assert read_after(trips, "audit", heads[0]) == {1001, 1002}

    assert isinstance(cleaned(trips), Succeeded)
    with pytest.raises(IllegalArgumentException, match="is not a parent ancestor"):
        read_after(trips, "audit", heads[0])


def test_a_stream_that_is_not_declared_goes_on_if_it_has_read_everything(trips: Trips, tmp_path: Path) -> None:
    """It stands at the newest write, which stays with the rewrites after it."""
    stream = Stream(trips, tmp_path)
    assert stream.read() == trips.expected
    table = Deletions(trips)
    before = table.snapshots()
    table.rewrite()
    assert isinstance(cleaned(trips), Succeeded)
    assert table.snapshots()[0] == before[-1]
    new = appended(trips)
    assert stream.read() == new


def test_a_stream_that_is_not_declared_fails_after_a_clean_if_it_was_behind(trips: Trips, tmp_path: Path) -> None:
    """The declaration prevents this. Iceberg names the snapshot, and the stream has to be started anew."""
    table, stream = Deletions(trips), Stream(trips, tmp_path)
    assert stream.read() == trips.expected
    stands = table.snapshots()[-1]
    trips.append()
    assert isinstance(cleaned(trips), Succeeded)
    trips.append()
    with pytest.raises(StreamingQueryException, match=f"{stands}.* expired or removed"):
        stream.read()


def test_a_stream_that_is_as_far_back_as_explain_says_goes_on(trips: Trips, tmp_path: Path) -> None:
    """One stream has read up to that snapshot, another one up to the snapshot before. None is declared."""
    behind, just = (Stream(trips, tmp_path / name) for name in ("behind", "just"))
    behind.read()
    appended(trips)
    just.read()
    stands = Deletions(trips).snapshots()[-1]
    new = appended(trips)

    options = CleanOptions(**{**EVERYTHING, "min_snapshots_to_keep": 2})
    table = Table(
        id=TableId("trips"),
        format="iceberg",
        location=str(trips.assigned["location"]),
        catalog=TypeAdapter(ICEBERG.catalog_settings).validate_python(trips.lake.settings),
        options=IcebergTableOptions(**AT_ONCE),
        policies={Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=options)},
    )
    view = ICEBERG.observe(table, LocalStorage(), None, now=SystemClock().now() + LATER).view
    assert f"({stands}), unless it is declared" in view.notes[Service.CLEAN][1]

    assert isinstance(cleaned(trips, keeps=2), Succeeded)
    assert just.read() == new
    with pytest.raises(StreamingQueryException, match="expired or removed"):
        behind.read()


def test_a_stream_by_available_now_needs_a_beginning_that_is_no_snapshot(trips: Trips, tmp_path: Path) -> None:
    """Each start of such a query goes from its first offset to the head of main. If that offset names a snapshot, the
    query fails as soon as this expires, declared or not. If the table had nothing new when the query was first started,
    it names none.
    """
    now = {"availableNow": True}
    usual = Stream(trips, tmp_path / "usual", trigger=now)
    assert usual.read() == trips.expected
    first = Deletions(trips).snapshots()[0]
    time.sleep(0.01)
    from_now = {"stream-from-timestamp": str(int(time.time() * 1000))}
    prepared = Stream(trips, tmp_path / "prepared", trigger=now, options=from_now)
    assert prepared.read() == {}
    new = appended(trips)
    assert prepared.read() == new

    assert isinstance(cleaned(trips, **DECLARED), Succeeded)
    new = appended(trips)
    with pytest.raises(StreamingQueryException, match=f"{first}.* expired or removed"):
        usual.read()
    assert prepared.read() == new
    assert isinstance(cleaned(trips, **DECLARED), Succeeded)
    new = appended(trips)
    assert prepared.read() == new
