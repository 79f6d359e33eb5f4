"""Time travel: which instants must show which rows, and which instants cannot."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakewarden.demo.writers.orders import Batch, Ending, Record, Row
from live.hudi.travel import Commit, batch_of, commits, earliest_retained, overtakings, rows_at

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FIXTURES = Path(__file__).parents[3] / "fixtures" / "hudi"


def batch(number: int, begun: float, answered: float | None) -> Batch:
    return Batch(
        number=number,
        rows=(),
        begun=NOON + timedelta(seconds=begun),
        ending=Ending.OPEN if answered is None else Ending.ACKNOWLEDGED,
        answered=None if answered is None else NOON + timedelta(seconds=answered),
    )


RECORDS = {"writer": Record(batches=(batch(1, 0, 2), batch(2, 2.5, 5), batch(3, 6, None)))}


def write(instant: str, completed: str = "", signed: tuple[str, int] | None = None) -> Commit:
    return Commit(instant=instant, completed=completed, operation="UPSERT", signed=signed)


def compaction(instant: str) -> Commit:
    return Commit(instant=instant, completed="20260101120009000", operation="COMPACT")


WRITE = write("20260101120003000", "20260101120005000")


def test_a_write_belongs_to_the_batch_that_was_open_when_it_was_stamped() -> None:
    """Instants are wall-clock times in UTC, to the millisecond."""
    found = batch_of(write("20260101120002500"), RECORDS)

    assert found is not None
    assert found.number == 2
    assert batch_of(write("20260101120005500"), RECORDS) is None, "between two batches"
    assert batch_of(write("20260101120007000"), RECORDS) is None, "its batch was never answered"


def test_a_signed_write_belongs_to_the_batch_that_it_names_however_many_are_open() -> None:
    """A record numbers attempts: the second batch of `b` was tried twice."""
    failed = replace(batch(2, 0, 3), ending=Ending.FAILED)
    records = {**RECORDS, "b": Record(batches=(batch(1, -2, -1), failed, batch(3, 3, 9)))}

    found = batch_of(write("20260101120004000", signed=("b", 2)), records)

    assert found is not None
    assert found.number == 3
    assert batch_of(write("20260101120004000", signed=("b", 3)), records) is None, "it was never acknowledged"
    assert batch_of(write("20260101120004000", signed=("c", 1)), records) is None, "there is no such writer"


def test_a_write_is_overtaken_by_a_compaction_that_was_planned_while_it_was_in_flight() -> None:
    """An earlier compaction does not overtake it, nor does one that was planned after it had completed."""
    during, before, after = (
        compaction("20260101120003001"),
        compaction("20260101120002999"),
        compaction("20260101120005001"),
    )

    [(overtaking, overtaken)] = overtakings([before, WRITE, during, after], RECORDS, as_of=WRITE.instant)

    assert (overtaking, overtaken.number) == (during.instant, 2)
    assert not list(overtakings([before, WRITE, after], RECORDS, as_of=WRITE.instant))
    assert not list(overtakings([WRITE, during], RECORDS, as_of=during.instant)), "it shows the compaction"


def test_of_two_writers_one_compaction_overtakes_both() -> None:
    """The rows of each may be missing at the instant of the later one. Once only the rows of one were allowed to be,
    and the others were taken for lost (run).
    """
    first = write("20260101120002000", "20260101120004000", ("a", 1))
    later = write("20260101120002500", "20260101120004500", ("b", 1))
    records = {"a": Record(batches=(batch(1, 1, 5),)), "b": Record(batches=(batch(1, 2, 5),))}
    overtaken = list(overtakings([first, later, compaction("20260101120003000")], records, as_of=later.instant))

    assert [id(each) for _, each in overtaken] == [id(records["a"].batches[0]), id(records["b"].batches[0])]


def test_an_instant_shows_what_was_stamped_before_it_of_every_writer() -> None:
    """The time of completion does not count. A write that has left the active timeline is older."""
    own = {name: Row(key=name, partition="p", value=1) for name in ("a1", "a2", "b1", "b2")}
    a = Record(batches=(replace(batch(1, 0, 2), rows=(own["a1"],)), replace(batch(2, 3, 8), rows=(own["a2"],))))
    b = Record(batches=(replace(batch(1, 0, 2), rows=(own["b1"],)), replace(batch(2, 2, 9), rows=(own["b2"],))))
    timeline = [
        write("20260101120003500", "20260101120008000", ("a", 2)),
        write("20260101120004500", "20260101120009000", ("b", 2)),
    ]

    assert rows_at("20260101120003500", timeline, {"a": a, "b": b}).keys() == {"a1", "a2", "b1"}
    assert rows_at("20260101120004500", timeline, {"a": a, "b": b}).keys() == own.keys()


def test_the_timeline_of_a_real_table_is_read(tmp_path: Path) -> None:
    """The table was written by Hudi 1.2. The test compares requested and completed times and the actions."""
    with zipfile.ZipFile(FIXTURES / "mor_v9.zip") as archive:
        archive.extractall(tmp_path)

    found = commits(tmp_path)

    assert {"UPSERT", "COMPACT"} <= {commit.operation for commit in found}
    assert [commit.instant for commit in found] == sorted(commit.instant for commit in found)
    assert all(commit.completed > commit.instant for commit in found)
    assert not any(commit.writes for commit in found if commit.operation == "COMPACT")
    assert earliest_retained(tmp_path) in {"", *(commit.instant for commit in found)}
