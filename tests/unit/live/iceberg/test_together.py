"""Every kind of writer beside one daemon: the place of each batch, the readings of an incremental reader, and the
report.
"""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType
from rich.console import Console

from lakewarden.demo.formats.iceberg.appender import AppendCommitter
from lakewarden.demo.formats.iceberg.demo import NAMESPACE
from lakewarden.demo.report import Range
from lakewarden.demo.writers.orders import Batch, Ending, Record, RecordWriter, Row, read_record
from lakewarden.demo.writers.writing import Committer
from live.iceberg.blame import caused_by_us
from live.iceberg.together.appends import MARKED_EVERY, BranchedCommitter, MovingCommitter, StagedCommitter, marked
from live.iceberg.together.incremental import HistoryGoneError, IncrementalReader
from live.iceberg.together.report import IncrementalTally, TableTally, TogetherReport
from live.iceberg.together.rows import expected, found
from live.iceberg.together.spark_queries import read_micro_batches
from live.iceberg.together.streams import RENAMED_BEFORE, appended, deletes, publishes, upserted
from live.iceberg.together.tables import BRANCH, Name, create, identifier, open_catalog
from live.iceberg.travel import acknowledged_by, begun_by, travel
from live.report import LiveReaderTally, LiveServiceTally, LiveWriterTally, TimeTravel, tell
from tests.support.daemon.answers import NOON, a_run_told

GOOD = TogetherReport(
    table_type="merge-on-read",
    writer_kind="every kind of",
    seconds=300.0,
    wanted_commits=100,
    enabled=("compaction",),
    each_succeeds=3,
    rows_expected=200,
    rows_found=200,
    rows_wrong=0,
    writer=LiveWriterTally(commits=60, failures=0, caused_by_us=0),
    reader=LiveReaderTally(queries=100, failures=0),
    services={"compaction": LiveServiceTally(succeeded=4)},
    counted={"data_files": Range(peak=20, end=2)},
    time_travel=TimeTravel(instants=9),
    others={"upserts": LiveWriterTally(commits=41, failures=1, caused_by_us=0)},
    tables={"upserts": TableTally(expected=60, wrong=0)},
    incremental=IncrementalTally(readings=9, rows=90),
    streams={"continuous": IncrementalTally(readings=9, rows=90)},
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    (tmp_path / "warehouse").mkdir()
    opened = open_catalog(tmp_path)
    opened.create_namespace(NAMESPACE)
    return opened


def written(committer: Committer, record: Path, batches: int) -> Record:
    writer = RecordWriter(record)
    for batch in range(1, batches + 1):
        writer.begun(batch, appended(batch))
        committer.commit(batch, appended(batch))
        writer.acknowledged(batch)
    return read_record(record)


def test_a_renamed_table_keeps_its_rows_and_another_one_has_its_name(catalog: Catalog, tmp_path: Path) -> None:
    """Both are written to afterwards, and lie in folders of their own."""
    create(catalog, tmp_path, Name.MOVING, folder="moving")
    record = written(MovingCommitter(tmp_path, appended), tmp_path / "record", RENAMED_BEFORE + 3)

    wanted = expected(Name.MOVING, record)

    assert {home: len(rows) for home, rows in wanted.items()} == {
        (Name.MOVED, "main"): 4 * (RENAMED_BEFORE - 1 + 2),
        (Name.MOVING, "main"): 4 * 2,
    }
    for (name, branch), rows in wanted.items():
        assert found(catalog.load_table(identifier(name)), branch) == (rows, 0)
    assert (
        catalog.load_table(identifier(Name.MOVING)).location() != catalog.load_table(identifier(Name.MOVED)).location()
    )


def test_a_branch_has_the_rows_of_before_it_and_its_own(catalog: Catalog, tmp_path: Path) -> None:
    """Main has none of the branch's own rows."""
    create(catalog, tmp_path, Name.BRANCHED, folder="branched")
    record = written(BranchedCommitter(tmp_path, appended), tmp_path / "record", 5)

    wanted = expected(Name.BRANCHED, record)

    assert {branch: len(rows) for (_, branch), rows in wanted.items()} == {"main": 4 * 3, BRANCH: 4 * 3}
    table = catalog.load_table(identifier(Name.BRANCHED))
    for (_, branch), rows in wanted.items():
        assert found(table, branch) == (rows, 0)


def test_staged_files_lie_in_the_table_before_they_are_committed(catalog: Catalog, tmp_path: Path) -> None:
    """Each is committed once."""
    table = create(catalog, tmp_path, Name.STAGED, folder="staged")
    record = written(StagedCommitter(tmp_path, appended), tmp_path / "record", 3)

    [rows] = expected(Name.STAGED, record).values()

    assert found(table.refresh(), "main") == (rows, 0)
    committed = {task.file.file_path for task in table.scan().plan_files()}
    assert len(list((tmp_path / "warehouse" / NAMESPACE / "staged" / "data").rglob("*.parquet"))) > 2 * len(committed)


def test_a_sink_commits_again_what_it_finds_no_mark_of(catalog: Catalog, tmp_path: Path) -> None:
    """While its mark is there, each batch is committed once, however many snapshots without a mark follow it."""
    table = create(catalog, tmp_path, Name.STAGED, folder="staged")
    committer = StagedCommitter(tmp_path, appended)
    for batch in (MARKED_EVERY, MARKED_EVERY + 1, 2 * MARKED_EVERY, 2 * MARKED_EVERY + 1):
        committer.commit(batch, appended(batch))
    assert found(table.refresh(), "main")[1] == 0
    assert marked(table) == 2 * MARKED_EVERY

    *old, _ = table.metadata.snapshots
    table.maintenance.expire_snapshots().by_ids([one.snapshot_id for one in old]).commit()
    assert marked(table.refresh()) == 0
    committer.commit(3 * MARKED_EVERY, appended(3 * MARKED_EVERY))
    assert found(table.refresh(), "main")[1] == 8


def test_a_micro_batch_that_was_repeated_counts_once_and_one_after_a_lost_checkpoint_counts(tmp_path: Path) -> None:
    """The first has the same number and the same rows, in any order. The second has number 0 again, and more rows."""
    lines = [
        {"number": 0, "ids": [1, 2], "failure": ""},
        {"number": 0, "ids": [2, 1], "failure": ""},
        {"number": 1, "ids": [3], "failure": ""},
        {"number": 0, "ids": [1, 2, 3], "failure": ""},
    ]
    (tmp_path / "readings").write_text("".join(json.dumps(line) + "\n" for line in lines) + "{")
    assert [one.ids for one in read_micro_batches(tmp_path / "readings")] == [(1, 2), (3,), (1, 2, 3)]
    assert read_micro_batches(tmp_path / "none") == []


def test_an_incremental_reader_gets_each_appended_row_once(catalog: Catalog, tmp_path: Path) -> None:
    """Other commits in between change nothing. If its snapshot is gone, the reader says so and does not start again."""
    table = create(catalog, tmp_path, Name.STAGED, folder="staged")
    committer, reader = StagedCommitter(tmp_path, appended), IncrementalReader()
    assert reader.read(table).ids == ()
    committer.commit(1, appended(1))
    table.refresh().delete("id == 5")
    committer.commit(2, appended(2))
    whole = {int(row.key) for batch in (1, 2) for row in appended(batch)} - {5}
    assert sorted(reader.read(table.refresh()).ids) == sorted(whole)
    committer.commit(3, appended(3))
    table.refresh().delete("id == 4")
    committer.commit(4, appended(4))
    ids = reader.read(table.refresh()).ids
    assert sorted(ids) == sorted(int(row.key) for batch in (3, 4) for row in appended(batch))
    assert reader.read(table.refresh()).ids == ()

    stopped_at = table.metadata.current_snapshot_id
    committer.commit(5, appended(5))
    assert stopped_at is not None
    table.refresh().maintenance.expire_snapshots().by_id(stopped_at).commit()
    for _ in range(2):
        with pytest.raises(HistoryGoneError, match=str(stopped_at)):
            reader.read(table.refresh())


def test_an_upsert_job_replaces_deletes_and_publishes() -> None:
    """The published rows have ids that no checkpoint has."""
    many = range(1, 200)
    published = {row.key for batch in many if publishes(batch) for row in upserted(batch)}
    others = {row.key for batch in many if not publishes(batch) for row in upserted(batch)}
    assert published
    assert not published & others
    assert all(row.deleted == deletes(batch) for batch in many for row in upserted(batch))
    assert any(deletes(batch) for batch in many)
    assert all(len({row.key for row in upserted(batch)}) == len(upserted(batch)) for batch in many)


def test_all_writers_make_the_commits_together() -> None:
    """A failure that the writers caused themselves is reported, and is no shortcoming."""
    assert GOOD.shortcomings() == []
    console = Console(file=io.StringIO(), width=200)
    tell(console, GOOD)
    assert "101 commits of all writers" in console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (replace(GOOD, wanted_commits=102), "101 of 102 commits were made"),
        (replace(GOOD, others={"staged": LiveWriterTally(commits=41, failures=1, caused_by_us=1)}), "because of us"),
        (replace(GOOD, others={"staged": LiveWriterTally(commits=0, failures=0, caused_by_us=0)}), "committed nothing"),
        (replace(GOOD, tables={"moved": TableTally(expected=9, wrong=1)}), "1 of 9 rows are wrong"),
        (replace(GOOD, tables={"moved": TableTally(expected=9, wrong=0, twice=2)}), "2 are there twice"),
        (replace(GOOD, tables={"moved": TableTally(expected=9, wrong=9, unreadable="it is gone")}), "it is gone"),
        (replace(GOOD, incremental=IncrementalTally(readings=9, rows=9, failures=("no",))), "reader failed: no"),
        (replace(GOOD, incremental=IncrementalTally(readings=9, rows=9, missed=3)), "missed 3 rows"),
        (replace(GOOD, incremental=IncrementalTally(readings=9, rows=9, twice=4)), "got 4 again"),
        (replace(GOOD, incremental=IncrementalTally(readings=9, rows=0)), "has read no row"),
        (replace(GOOD, streams={"daily": IncrementalTally(readings=9, rows=9, twice=4)}), "the stream daily missed 0"),
        (replace(GOOD, rows_wrong=1), "1 of 200 rows are wrong"),
    ],
)
def test_whatever_was_promised_and_not_shown_is_a_shortcoming(bad: TogetherReport, said: str) -> None:
    """It is named in one sentence."""
    assert [one for one in bad.shortcomings() if said in one]


# The cause of a failed Iceberg commit, by the text of its exception.


def failed(message: str) -> Batch:
    return Batch(
        number=1,
        rows=(),
        begun=NOON,
        ending=Ending.FAILED,
        answered=NOON + timedelta(seconds=2),
        message=message,
    )


NEAR = a_run_told(ended_at=NOON + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("message", "beside_us", "alone"),
    [
        ("ValidationException: Cannot commit, missing data files: [data/a.parquet]", True, True),
        ("org.apache.iceberg.exceptions.NotFoundException: File does not exist: data/a.parquet", True, True),
        ("ValidationException: Found conflicting files that can contain records matching true", False, False),
        ("ValidationException: Found new conflicting delete files that can apply to records", False, False),
        ("CommitFailedException: Table has been updated by another process", True, False),
        ("a failure that was never seen before", True, False),
    ],
)
def test_a_failure_is_blamed_by_its_text_and_by_what_ran_then(message: str, beside_us: bool, alone: bool) -> None:
    """If files are gone, Lakewarden has caused it: no writer of the suite replaces files. If files are new, another
    writer has. A text that says neither counts as ours if a run of ours was there.
    """
    assert bool(caused_by_us([failed(message)], [NEAR])) is beside_us
    assert bool(caused_by_us([failed(message)], [])) is alone


# Time travel on Iceberg: the rows that must be in a snapshot, and the rows that may be.


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


def test_what_was_acknowledged_before_a_snapshot_must_be_in_it_and_what_was_begun_may_be() -> None:
    """The snapshot's time is cut off to the millisecond."""
    assert numbers(acknowledged_by(NOON + timedelta(seconds=4.5), RECORD)) == [1]
    assert numbers(acknowledged_by(NOON + timedelta(seconds=5.5), RECORD)) == [1, 3]
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
