"""Time travel: which instants must show what, and which cannot."""

from __future__ import annotations

import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakewarden.executors.demo.record import Batch, Ending, Record
from live.hudi.travel import Commit, batch_of, commits, earliest_retained, overtaking

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


RECORD = Record(batches=(batch(1, 0, 2), batch(2, 2.5, 5), batch(3, 6, None)))
WRITE = Commit(instant="20260101120003000", completed="20260101120005000", operation="UPSERT")


def compaction(instant: str) -> Commit:
    return Commit(instant=instant, completed="20260101120009000", operation="COMPACT")


def test_a_write_belongs_to_the_batch_that_was_open_when_it_was_stamped() -> None:
    """Instants are wall-clock times in UTC, to the millisecond."""
    found = batch_of("20260101120002500", RECORD)

    assert found is not None
    assert found.number == 2
    assert batch_of("20260101120005500", RECORD) is None, "between two batches"
    assert batch_of("20260101120007000", RECORD) is None, "its batch was never answered"


def test_a_write_is_overtaken_by_a_compaction_that_was_planned_while_it_was_in_flight() -> None:
    """Neither by an earlier one, nor by one that was planned after it had completed."""
    during, before, after = (
        compaction("20260101120003001"),
        compaction("20260101120002999"),
        compaction("20260101120005001"),
    )

    assert overtaking(WRITE, [before, WRITE, during, after], as_of=WRITE.instant) == during.instant
    assert overtaking(WRITE, [before, WRITE, after], as_of=WRITE.instant) == ""


def test_from_the_compaction_on_the_write_must_be_shown() -> None:
    """There is no excuse for an instant that shows the compaction."""
    during = compaction("20260101120003001")

    assert overtaking(WRITE, [WRITE, during], as_of=during.instant) == ""


def test_the_timeline_of_a_real_table_is_read(tmp_path: Path) -> None:
    """Requested and completed times and what each instant did, from a table that Hudi 1.2 wrote."""
    with zipfile.ZipFile(FIXTURES / "mor_v9.zip") as archive:
        archive.extractall(tmp_path)

    found = commits(tmp_path)

    assert {"UPSERT", "COMPACT"} <= {commit.operation for commit in found}
    assert [commit.instant for commit in found] == sorted(commit.instant for commit in found)
    assert all(commit.completed > commit.instant for commit in found)
    assert not any(commit.writes for commit in found if commit.operation == "COMPACT")
    assert earliest_retained(tmp_path) in {"", *(commit.instant for commit in found)}
