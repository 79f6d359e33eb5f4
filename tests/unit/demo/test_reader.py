"""The reader's check: an answer is right if it is the state after some commit, and is not too old."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import pytest

from lakewarden.demo.formats.hudi.reader import was_archived_meanwhile
from lakewarden.demo.reader import complaint, complaints, count_wrong_rows
from lakewarden.demo.writers.orders import Batch, Ending, Record, Row, rows_after

_NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def batch(number: int, *keys: str, ending: Ending = Ending.ACKNOWLEDGED) -> Batch:
    rows = tuple(Row(key=key, partition="north", value=number) for key in keys)
    return Batch(number=number, rows=rows, begun=_NOON, ending=ending)


FIRST = batch(1, "a", "b")
SECOND = batch(2, "b", "c")
SECOND_OPEN = batch(2, "b", "c", ending=Ending.OPEN)
SECOND_FAILED = batch(2, "b", "c", ending=Ending.FAILED)


@pytest.mark.parametrize(
    ("rows", "before", "after", "right"),
    [
        pytest.param(rows_after([FIRST, SECOND]), (FIRST, SECOND), (FIRST, SECOND), True, id="the newest commit"),
        pytest.param(rows_after([FIRST]), (FIRST, SECOND_OPEN), (FIRST, SECOND_OPEN), True, id="before one under way"),
        pytest.param(rows_after([FIRST, SECOND]), (FIRST, SECOND_OPEN), (FIRST, SECOND_OPEN), True, id="after it"),
        pytest.param(rows_after([FIRST]), (FIRST, SECOND), (FIRST, SECOND), False, id="stale"),
        pytest.param(
            {**rows_after([FIRST]), "c": SECOND.rows[1]}, (FIRST, SECOND_OPEN), (FIRST, SECOND_OPEN), False, id="torn"
        ),
        pytest.param(rows_after([FIRST, SECOND]), (FIRST,), (FIRST, SECOND_FAILED), False, id="a failed commit"),
    ],
)
def test_an_answer_is_right_after_an_acknowledged_commit_or_one_under_way(
    rows: Mapping[str, Row], before: tuple[Batch, ...], after: tuple[Batch, ...], right: bool
) -> None:
    """A commit is visible completely or not at all, and one that has failed is not."""
    assert (complaint(rows, before=before, after=after) == "") is right


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
