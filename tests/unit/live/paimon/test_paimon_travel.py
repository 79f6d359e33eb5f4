"""Every snapshot of a Paimon table must show the batches that were written until then, and no others."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.demo.writers.orders import Batch, Ending, Record, Row
from live.paimon.history import SnapshotsSeen
from live.paimon.plain_reader import PlainReader
from live.paimon.travel import travel
from tests.support.paimon.paimon_rows import INSERT, OrdersTable

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def batch(number: int, key: str, value: int) -> Batch:
    rows = (Row(key=key, partition="north", value=value),)
    return Batch(number=number, rows=rows, begun=NOON, ending=Ending.ACKNOWLEDGED, answered=NOON)


RECORD = Record(batches=(batch(1, "a", 1), batch(2, "a", 2), batch(3, "b", 3)))


@pytest.fixture
def table(tmp_path: Path) -> OrdersTable:
    table = OrdersTable(tmp_path / "orders")
    table.write(("a", 1, INSERT), identifier=1)
    table.write(("a", 2, INSERT), identifier=2)
    return table


def seen(table: OrdersTable) -> SnapshotsSeen:
    found = SnapshotsSeen(table.folder)
    found.look()
    return found


def wrong(table: OrdersTable, looked: SnapshotsSeen) -> dict[str, bool]:
    return {one.instant: one.right for one in travel(PlainReader(table.folder), looked, RECORD)}


def test_a_compaction_shows_what_was_written_before_it(table: OrdersTable) -> None:
    """And the next write shows more."""
    table.rewrite(("a", 2, INSERT))
    table.write(("b", 3, INSERT), identifier=3)
    assert wrong(table, seen(table)) == {"1": True, "2": True, "3": True, "4": True}


def test_a_compaction_that_loses_or_brings_back_a_row_is_found(table: OrdersTable) -> None:
    """Both are wrong at its snapshot."""
    table.rewrite(("a", 1, INSERT))
    assert wrong(table, seen(table)) == {"1": True, "2": True, "3": False}


def test_a_snapshot_with_a_file_that_is_gone_is_wrong(table: OrdersTable) -> None:
    """So is each later one that needs it."""
    table.place(table.live(1)[0].name).unlink()
    assert wrong(table, seen(table)) == {"1": False, "2": False}


def test_what_an_expired_snapshot_was_is_remembered(table: OrdersTable) -> None:
    """The writer's newest batch is known by it."""
    looked = seen(table)
    table.rewrite(("a", 2, INSERT))
    table.expire(3)
    looked.look()
    assert wrong(table, looked) == {"3": True}
    assert looked.authors() == {"3": "run1"}
    assert looked.missing() == []
    assert seen(table).missing() == [1, 2]


def test_a_snapshot_that_was_replaced_counts_as_what_it_is_now(table: OrdersTable) -> None:
    """A writer without hard links can replace one of ours."""
    table.rewrite(("a", 2, INSERT))
    looked = seen(table)
    table.roll_back(2)
    table.write(("b", 3, INSERT), identifier=3)
    looked.look()
    assert looked.authors() == {}
