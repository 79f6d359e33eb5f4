"""The reader's check: an answer is right if it is the state after some commit, and is not too old."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.demo.formats.hudi.reader import was_archived_meanwhile
from lakewarden.demo.reader import complaint, complaints, count_wrong_rows, read_queries
from lakewarden.demo.writers.orders import Batch, Ending, Record, Row, rows_after

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def batch(number: int, *keys: str, ending: Ending = Ending.ACKNOWLEDGED) -> Batch:
    rows = tuple(Row(key=key, partition="north", value=number) for key in keys)
    return Batch(number=number, rows=rows, begun=_NOON, ending=ending)


FIRST = batch(1, "a", "b")
SECOND = batch(2, "b", "c")
SECOND_OPEN = batch(2, "b", "c", ending=Ending.OPEN)
SECOND_FAILED = batch(2, "b", "c", ending=Ending.FAILED)


def test_the_state_after_the_newest_commit_is_right() -> None:
    """Nothing was written meanwhile, so there is one right answer."""
    assert complaint(rows_after([FIRST, SECOND]), before=(FIRST, SECOND), after=(FIRST, SECOND)) == ""


def test_a_commit_under_way_may_be_seen_or_not() -> None:
    """While a commit is under way, the states before and after it are both right."""
    for seen in ([FIRST], [FIRST, SECOND]):
        assert complaint(rows_after(seen), before=(FIRST, SECOND_OPEN), after=(FIRST, SECOND_OPEN)) == ""


def test_an_answer_without_an_acknowledged_commit_is_stale() -> None:
    """The rows of a commit that was acknowledged before the query must be found."""
    assert complaint(rows_after([FIRST]), before=(FIRST, SECOND), after=(FIRST, SECOND))


def test_half_a_commit_is_torn() -> None:
    """A commit is visible completely or not at all."""
    torn = {**rows_after([FIRST]), "c": SECOND.rows[1]}

    assert complaint(torn, before=(FIRST, SECOND_OPEN), after=(FIRST, SECOND_OPEN))


def test_a_failed_commit_must_not_be_found() -> None:
    """The writer was told that it failed."""
    assert complaint(rows_after([FIRST, SECOND]), before=(FIRST,), after=(FIRST, SECOND_FAILED))


def test_rows_are_wrong_that_are_missing_or_foreign_or_old() -> None:
    """Each kind counts once for each row."""
    expected = rows_after([FIRST, SECOND])
    found = {"b": FIRST.rows[1], "c": SECOND.rows[1], "d": SECOND.rows[0]}

    assert count_wrong_rows(found, expected) == 3


def test_of_two_writers_each_may_be_seen_as_far_as_it_has_come() -> None:
    """The order of their commits does not matter. The state of one does not depend on the other's."""
    ours, theirs = (
        Record(batches=(FIRST, SECOND_OPEN)),
        Record(batches=(batch(1, "x"), batch(2, "x", ending=Ending.OPEN))),
    )
    for first in ([FIRST], [FIRST, SECOND]):
        for second in ([batch(1, "x")], [batch(1, "x"), batch(2, "x")]):
            found = {**rows_after(first), **rows_after(second)}
            assert complaints(found, before=(ours, theirs), after=(ours, theirs)) == ""


def test_one_writer_that_is_right_does_not_excuse_the_other() -> None:
    """A missing row of either writer is reported."""
    records = (Record(batches=(FIRST,)), Record(batches=(batch(1, "x"),)))

    assert complaints(rows_after([FIRST]), before=records, after=records)
    assert complaints(rows_after([batch(1, "x")]), before=records, after=records)


def test_a_row_that_no_writer_has_written_is_told() -> None:
    """Each writer's keys are checked separately. Keys of no writer must be checked, too."""
    records = (Record(batches=(FIRST,)),)
    found = {**rows_after([FIRST]), "z": Row(key="z", partition="north", value=1)}

    assert "written by no writer" in complaints(found, before=records, after=records)


def test_a_reader_that_has_not_begun_has_no_queries(tmp_path: Path) -> None:
    """A missing file is no error."""
    assert read_queries(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("gone", "archived"),
    [
        ("table/.hoodie/timeline/20261121113932704_20261121113939651.replacecommit", True),
        ("table/.hoodie/timeline/20261121113932704.deltacommit.inflight", False),
        ("table/.hoodie/hoodie.properties", False),
        ("table/day-0001/f1_0-1-0_20261121113932704.parquet", False),
    ],
)
def test_only_a_completed_instant_that_is_gone_was_archived(gone: str, archived: bool) -> None:
    """If a data file is gone, the query fails: a clean must not cause that."""
    error = OSError(f"Storage error: Object at location /{gone} not found: No such file or directory (os error 2)")

    assert was_archived_meanwhile(error) == archived
