"""Time travel on Iceberg: the rows that must be in a snapshot, and the rows that may be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

from lakewarden.demo.formats.iceberg.appender import AppendCommitter
from lakewarden.demo.writers.orders import Batch, Ending, Record, RecordWriter, Row, read_record
from live.iceberg.travel import acknowledged_by, begun_by, travel

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def batch(number: int, begun: float, answered: float | None, ending: Ending = Ending.ACKNOWLEDGED) -> Batch:
    return Batch(
        number=number,
        rows=(),
        begun=NOON + timedelta(seconds=begun),
        ending=Ending.OPEN if answered is None else ending,
        answered=None if answered is None else NOON + timedelta(seconds=answered),
    )


RECORD = Record(batches=(batch(1, 0, 1), batch(2, 2, 3, Ending.FAILED), batch(3, 4, 5), batch(4, 6, None)))


def numbers(record: Record) -> list[int]:
    return [batch.number for batch in record.batches]


def test_what_was_acknowledged_before_a_snapshot_must_be_in_it() -> None:
    """A batch that was being committed need not be in it."""
    assert numbers(acknowledged_by(NOON + timedelta(seconds=4.5), RECORD)) == [1]
    assert numbers(acknowledged_by(NOON + timedelta(seconds=5.5), RECORD)) == [1, 3]


def test_what_was_begun_before_a_snapshot_may_be_in_it() -> None:
    """The snapshot's time is cut off to the millisecond."""
    assert numbers(begun_by(NOON + timedelta(seconds=4), RECORD)) == [1, 2, 3]
    assert numbers(begun_by(NOON + timedelta(seconds=3.99), RECORD)) == [1, 2]


def test_every_snapshot_is_held_against_the_record_of_its_time(tmp_path: Path) -> None:
    """A snapshot with later rows, or without earlier ones, is wrong. So is a snapshot with a missing file."""
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": str(tmp_path)}
    catalog = load_catalog("lake", **settings)
    catalog.create_namespace("shop")
    fields = [("order_id", StringType()), ("region", StringType()), ("version", IntegerType())]
    schema = Schema(*(NestedField(n, name, kind) for n, (name, kind) in enumerate(fields, start=1)))
    catalog.create_table("shop.orders", schema)
    appender, record = AppendCommitter(table="lake.shop.orders", catalog=settings), RecordWriter(tmp_path / "record")
    for number in (1, 2):
        rows = (Row(key=f"order-{number}", partition="north", value=number),)
        record.begun(number, rows)
        appender.commit(number, rows)
        record.acknowledged(number)
    table, written = catalog.load_table("shop.orders"), read_record(tmp_path / "record")

    assert [journey.right for journey in travel(table, [written])] == [True, True]

    only_the_first = Record(batches=written.batches[:1])
    assert [journey.right for journey in travel(table, [only_the_first])] == [True, False]

    newest = max(tmp_path.rglob("*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    newest.unlink()
    assert [journey.right for journey in travel(table, [written])] == [True, False]
