"""What is wrong with the two tables of a Flink job is found, whatever checkpoint they are at."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from live.flink.paimon.shop import KEYS, Shop
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def written(shop: Shop, table: str, *numbers: int) -> None:
    """Make a table with the numbers in one file. It replaces the table before."""
    paimon = PaimonTable(shop.folders[table], keyed=table == "orders")
    file = paimon.file()
    place = paimon.folder / "p=0" / "bucket-0" / file.name
    place.parent.mkdir(parents=True, exist_ok=True)
    marks = {"_VALUE_KIND": 0, "dt": "2020-01-01"}
    rows = [{"k": one % KEYS, "id": one, "_SEQUENCE_NUMBER": n, **marks} for n, one in enumerate(numbers)]
    pq.write_table(pa.Table.from_pylist(rows), place)
    paimon.append(file)


def complaint(shop: Shop, table: str) -> str:
    """Return the complaint of a reader that has read nothing before."""
    return Shop(shop.warehouse.parent).complaint(table)


@pytest.mark.parametrize("table", ["orders", "events"])
def test_numbers_without_a_gap_are_right_and_a_gap_is_not(shop: Shop, table: str) -> None:
    """Before the first snapshot nothing is wrong."""
    assert complaint(shop, table) == ""
    written(shop, table, 1, 2, 3)
    assert complaint(shop, table) == ""
    written(shop, table, 1, 2, 4)
    assert complaint(shop, table) == f"{table} has 1 wrong rows and 0 rows twice up to 4"


def test_a_number_that_is_there_twice_is_found(shop: Shop) -> None:
    """As if a restored job had committed a checkpoint again."""
    written(shop, "events", 1, 2, 2, 3)
    assert complaint(shop, "events") == "events has 0 wrong rows and 1 rows twice up to 3"


def test_of_a_key_the_newest_number_must_be_found(shop: Shop) -> None:
    """A compaction that brings an older row back is wrong."""
    written(shop, "orders", *range(1, KEYS + 2))
    assert complaint(shop, "orders") == ""
    written(shop, "orders", KEYS + 1, *range(2, KEYS + 1), KEYS + 2, 1)
    assert complaint(shop, "orders") == f"orders has 1 wrong rows and 0 rows twice up to {KEYS + 2}"
