"""The services that a failed write met, and that may have failed it."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.metadata.heartbeats import WINDOW
from tests.support.hudi.hudi_look import made, seen
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content

PROFILE = {"operationType": "UPSERT", "partitionToWriteStats": {"p1": [{"fileId": "a"}]}}
"""What a write's inflight file says before it writes: where to."""


def clustering(table: HudiTable, partition: str) -> str:
    """Plan to cluster a file in a partition."""
    time = table.next_time()
    slices = [{"dataFilePath": "a-0_0-1-2_20260101000000000.parquet", "partitionPath": partition}]
    plan = {"clusteringPlan": {"inputGroups": [{"slices": slices, "metrics": {}}]}}
    table.put(f"{time}.clustering.requested", json.dumps(plan).encode())
    return time


def begun(table: HudiTable, *, says_where: bool = True) -> str:
    """Leave a write in flight that will fail."""
    time = table.begin_write()
    if says_where:
        table.put(f"{time}.deltacommit.inflight", json.dumps(PROFILE).encode())
    return time


def met(table: HudiTable) -> frozenset[str]:
    """Return what the write in flight has met when it is known to be dead."""
    table.clock.advance(WINDOW)
    (failure,) = seen(table).writers.failures
    assert failure.met is not None
    return failure.met


@pytest.mark.parametrize(
    ("partition", "says_where", "hit"), [("p1", True, True), ("p2", True, False), ("p2", False, True)]
)
def test_a_write_meets_a_clustering_of_its_partitions(
    tmp_path: Path, partition: str, says_where: bool, hit: bool
) -> None:
    """The plan may be older than the write, or newer. A write that does not name its partitions meets all."""
    table = made(tmp_path)
    before = clustering(table, partition)
    begun(table, says_where=says_where)
    after = clustering(table, partition)

    assert met(table) == (frozenset({before, after}) if hit else frozenset())


def test_a_write_does_not_meet_what_was_completed_before_it_or_planned_after_its_life(tmp_path: Path) -> None:
    """A minute after its last sign of life it was dead: the next heartbeat was due."""
    table = made(tmp_path)
    early = clustering(table, "p1")
    table.complete(early, "replacecommit", commit_content({"p1": [base_file("b", early)]}, operation="CLUSTER"))
    begun(table)
    table.clock.advance(timedelta(seconds=61))
    clustering(table, "p1")

    assert met(table) == frozenset()


@pytest.mark.parametrize(("version", "pending_hurts"), [(6, True), (9, False)])
def test_a_write_meets_a_compaction_that_was_requested_after_it(
    tmp_path: Path, version: int, pending_hurts: bool
) -> None:
    """The compaction was completed before the write. Below version 8 a pending one is enough. The write has seen older
    ones.
    """
    table = made(tmp_path, version=version)
    table.plan_compaction()
    begun(table)
    plan = table.plan_compaction()

    assert met(table) == (frozenset({plan}) if pending_hurts else frozenset())


def test_a_write_meets_a_compaction_that_is_completed_in_its_life(tmp_path: Path) -> None:
    """Its writer prefers to lose to it."""
    table = made(tmp_path)
    begun(table)
    plan = table.plan_compaction()
    table.complete(plan, "commit", commit_content({"p1": [base_file("a", plan)]}))

    assert met(table) == {plan}
