"""Which snapshots a table has, where its folder holds others as well."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.metadata.history import History, Kept, read_history
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_look import view_of
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "trips")
    for _ in range(6):
        table.append()
    return table


class Forgetful(LocalStorage):
    """Its listings leave a file out."""

    def __init__(self, left_out: str) -> None:
        self._left_out = left_out

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        return [one for one in super().listing(location, most=most) if one.name != self._left_out]


def history_of(table: PaimonTable, storage: LocalStorage | None = None) -> History:
    storage = storage or LocalStorage()
    return read_history(str(table.folder), storage, Kept(storage, {}), head=table.newest)


def test_what_lies_below_a_gap_is_the_remains_of_an_expiry(table: PaimonTable) -> None:
    """Snapshots leave by their numbers, so what is older than one that is gone has no files any more."""
    table.snapshot_file(3).unlink()
    found = history_of(table)
    assert [one.id for one in found.snapshots] == [4, 5, 6]
    assert (found.oldest, found.remains, found.count) == (4, (1, 2), 3)
    (warning,) = view_of(table).warnings
    assert "2 snapshots lie below a gap (1 to 2)" in warning


def test_other_files_are_passed_over(table: PaimonTable) -> None:
    """Hints, and what writers have not renamed yet."""
    for name in ("EARLIEST", ".snapshot-7.tmp", "snapshot-x", "snapshot-0007777777777777", "snapshot-7.tmp"):
        (table.folder / "snapshot" / name).write_text("7")
    assert history_of(table).count == 6


@pytest.mark.parametrize("left_out", ["snapshot-6", "snapshot-4"])
def test_a_listing_that_is_not_whole_is_asked_again_later(table: PaimonTable, left_out: str) -> None:
    """No snapshot is taken for gone that is there."""
    with pytest.raises(TemporaryError, match=f"leaves out {left_out}, which is there"):
        history_of(table, Forgetful(left_out))


def test_an_old_snapshot_that_cannot_be_read_is_a_fault(table: PaimonTable) -> None:
    """The table is shown without it."""
    table.snapshot_file(2).write_text("{")
    view = view_of(table)
    assert [one.time[-1] for one in view.timeline.instants] == ["1", "3", "4", "5", "6"]
    assert "snapshot-2 is no snapshot of a Paimon table" in view.faults[0]
