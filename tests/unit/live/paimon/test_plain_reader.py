"""The reader that uses no code of Paimon finds what Paimon's own clients list, and the newest row of each key."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.demo.writers.orders import Batch, Ending, Record, Row
from live.paimon.history import SnapshotsSeen
from live.paimon.plain_reader import PlainReader
from live.paimon.travel import travel
from tests.support.paimon.paimon_rows import DELETE, INSERT, OrdersTable

FIXTURES = Path(__file__).parents[3] / "fixtures" / "paimon"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip") if path.stem != "spark_vectors")


@pytest.fixture
def table(tmp_path: Path) -> OrdersTable:
    return OrdersTable(tmp_path / "orders")


def newest(reader: PlainReader) -> dict[str, Row]:
    snapshots = reader.snapshots()
    return dict(reader.rows(snapshots[max(snapshots)]).rows)


@pytest.mark.parametrize("name", NAMES)
def test_the_files_of_real_tables_are_those_that_their_clients_list(name: str, tmp_path: Path) -> None:
    """Of 0.9.0 and of pypaimon, with manifests in their own compression."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    reader = PlainReader(tmp_path)
    snapshots = reader.snapshots()
    listed = json.loads((FIXTURES / f"{name}.json").read_text())["files"]
    assert sorted(reader.content(snapshots[max(snapshots)]).data.values()) == sorted(one["level"] for one in listed)


def test_rows_of_partitions_that_are_long_past_are_left_out(table: OrdersTable) -> None:
    """A ttl drops them at any moment, so no record expects them."""
    table.append(table.with_rows(("a", 1, INSERT)), table.with_rows(("b", 1, INSERT), region="2000-01-07"))
    assert newest(PlainReader(table.folder)).keys() == {"a"}


def test_of_each_key_the_newest_change_counts_and_a_deleted_key_is_gone(table: OrdersTable) -> None:
    """Before and after a compaction."""
    table.write(("a", 1, INSERT), ("b", 1, INSERT), ("c", 1, INSERT))
    table.write(("a", 2, INSERT), ("c", 1, DELETE))
    reader = PlainReader(table.folder)
    wanted = {"a": Row(key="a", partition="north", value=2), "b": Row(key="b", partition="north", value=1)}
    assert newest(reader) == wanted
    table.rewrite(("a", 2, INSERT), ("b", 1, INSERT))
    assert newest(reader) == wanted
    assert {len(reader.content(one).data) for one in reader.snapshots().values()} == {1, 2}


def test_a_key_in_two_buckets_is_there_twice(table: OrdersTable) -> None:
    """No merge of a bucket finds the other row."""
    table.append(table.with_rows(("a", 1, INSERT)), table.with_rows(("a", 1, INSERT), bucket=1))
    [snapshot] = PlainReader(table.folder).snapshots().values()
    assert PlainReader(table.folder).rows(snapshot).twice == {"a"}


def test_a_data_file_that_is_gone_is_an_error(table: OrdersTable) -> None:
    """It is named."""
    table.write(("a", 1, INSERT))
    [file] = table.live()
    table.place(file.name).unlink()
    with pytest.raises(FileNotFoundError, match=file.name):
        newest(PlainReader(table.folder))


# Every snapshot of a Paimon table must show the batches that were written until then, and no others.


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def batch(number: int, key: str, value: int) -> Batch:
    rows = (Row(key=key, partition="north", value=value),)
    return Batch(number=number, rows=rows, begun=NOON, ending=Ending.ACKNOWLEDGED, answered=NOON)


RECORD = Record(batches=(batch(1, "a", 1), batch(2, "a", 2), batch(3, "b", 3)))


@pytest.fixture
def shop(tmp_path: Path) -> OrdersTable:
    shop = OrdersTable(tmp_path / "orders")
    shop.write(("a", 1, INSERT), identifier=1)
    shop.write(("a", 2, INSERT), identifier=2)
    return shop


def seen(shop: OrdersTable) -> SnapshotsSeen:
    found = SnapshotsSeen(shop.folder)
    found.look()
    return found


def wrong(shop: OrdersTable, looked: SnapshotsSeen) -> dict[str, bool]:
    return {one.instant: one.right for one in travel(PlainReader(shop.folder), looked, RECORD)}


def test_a_compaction_shows_what_was_written_before_it(shop: OrdersTable) -> None:
    """And the next write shows more."""
    shop.rewrite(("a", 2, INSERT))
    shop.write(("b", 3, INSERT), identifier=3)
    assert wrong(shop, seen(shop)) == {"1": True, "2": True, "3": True, "4": True}


def test_a_compaction_that_brings_back_a_row_and_a_file_that_is_gone_are_found(shop: OrdersTable) -> None:
    """At the snapshot of the compaction, and at each snapshot that needs the file."""
    shop.rewrite(("a", 1, INSERT))
    assert wrong(shop, seen(shop)) == {"1": True, "2": True, "3": False}
    shop.place(shop.live(1)[0].name).unlink()
    assert wrong(shop, seen(shop)) == {"1": False, "2": False, "3": False}


def test_what_an_expired_snapshot_was_is_remembered(shop: OrdersTable) -> None:
    """The writer's newest batch is known by it."""
    looked = seen(shop)
    shop.rewrite(("a", 2, INSERT))
    shop.expire(3)
    looked.look()
    assert wrong(shop, looked) == {"3": True}
    assert looked.authors() == {"3": "run1"}
    assert looked.missing() == []
    assert seen(shop).missing() == [1, 2]


def test_a_snapshot_that_was_replaced_counts_as_what_it_is_now(shop: OrdersTable) -> None:
    """A writer without hard links can replace one of ours."""
    shop.rewrite(("a", 2, INSERT))
    looked = seen(shop)
    shop.roll_back(2)
    shop.write(("b", 3, INSERT), identifier=3)
    looked.look()
    assert looked.authors() == {}
