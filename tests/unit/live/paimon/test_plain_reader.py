"""The reader that uses no code of Paimon finds what Paimon's own clients list, and the newest row of each key."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from lakewarden.demo.writers.orders import Row
from live.paimon.plain_reader import PlainReader
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
