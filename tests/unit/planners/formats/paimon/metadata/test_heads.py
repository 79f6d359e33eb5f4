"""The newest snapshot is found, whatever the hint says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.metadata.heads import Heads, commit_user, is_of_manifests, run_of
from lakewarden.planners.formats.paimon.metadata.history import History, Kept, read_history
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Fate, RunId, Service
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_look import view_of
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "trips")
    for _ in range(5):
        table.append()
    return table


def newest(table: PaimonTable, heads: Heads | None = None) -> int | None:
    head = (heads or Heads()).of(str(table.folder), LocalStorage())
    return None if head is None else head.id


@pytest.mark.parametrize("hint", ["5", "3", "1", "9", "0", "-1", "x", "", " 5\n", "5" * 70, "9" * 20, None])
def test_a_hint_may_say_anything(table: PaimonTable, hint: str | None) -> None:
    """A stale one is where the search begins, and any other is passed over. A writer that died has written none."""
    (table.folder / "snapshot" / "LATEST").unlink()
    if hint is not None:
        (table.folder / "snapshot" / "LATEST").write_text(hint)
    assert newest(table) == 5


def test_a_hint_to_the_remains_of_an_expiry_is_passed_over(table: PaimonTable) -> None:
    """What lies below a gap is no head, once the folder was listed."""
    table.snapshot_file(3).unlink()
    (table.folder / "snapshot" / "LATEST").write_text("4")
    assert newest(table) == 5


def test_many_commits_beyond_a_hint_are_not_asked_for_one_by_one(table: PaimonTable) -> None:
    for _ in range(60):
        table.append()
    (table.folder / "snapshot" / "LATEST").write_text("1")
    assert newest(table) == 65


def test_what_was_the_newest_is_asked_first_and_a_rollback_is_found(table: PaimonTable) -> None:
    """The memory of a daemon is a hint as well."""
    heads = Heads()
    assert newest(table, heads) == 5
    table.roll_back(2)
    assert newest(table, heads) == 2
    table.append()
    assert newest(table, heads) == 3


# How the commits of Lakewarden are told from those of others.


def test_a_commit_user_names_its_run() -> None:
    assert run_of(commit_user(RunId("4f1c"))) == "4f1c"
    assert [run_of(user) for user in ("job", "lakewarden-", "", "x-lakewarden-4f1c")] == [None] * 4


def test_a_merge_of_manifests_is_told_from_a_compaction_by_its_commit_user(tmp_path: Path) -> None:
    """Both have the kind COMPACT. After a merge as many commits wait for a compaction as before it."""
    merge = commit_user(RunId("4f1c"), of_manifests=True)
    assert (run_of(merge), is_of_manifests(merge)) == ("4f1c", True)
    assert [is_of_manifests(user) for user in ("lakewarden-4f1c", "job.manifests")] == [False, False]
    table = PaimonTable(tmp_path / "t")
    table.append()
    table.append()
    waiting = view_of(table).backlogs[Service.COMPACTION].commits_since_request
    table.commit([], kind="COMPACT", user=merge)
    view = view_of(table)
    assert view.backlogs[Service.COMPACTION].commits_since_request == waiting == 2
    last = view.timeline.instants[-1]
    assert (last.stands_for, last.author) == (Service.ARCHIVE, "4f1c")


@pytest.mark.parametrize(("user", "fate"), [("lakewarden-run", Fate.COMPLETED), ("a-flink-job", Fate.ABSENT)])
def test_a_run_that_died_after_its_commit_is_found_by_its_commit_user(tmp_path: Path, user: str, fate: Fate) -> None:
    """The snapshot is the only trace that the commit has, and it suffices."""
    table = PaimonTable(tmp_path / "t")
    table.append()
    table.compact(user=user)
    assert view_of(table).timeline.fate(run=RunId("run"), instant=None) is fate


# Which snapshots a table has, where its folder holds others as well.


@pytest.fixture
def trips(tmp_path: Path) -> PaimonTable:
    trips = PaimonTable(tmp_path / "trips")
    for _ in range(6):
        trips.append()
    return trips


class Forgetful(LocalStorage):
    """Its listings leave a file out."""

    def __init__(self, left_out: str) -> None:
        self._left_out = left_out

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        return [one for one in super().listing(location, most=most) if one.name != self._left_out]


def history_of(trips: PaimonTable, storage: LocalStorage | None = None) -> History:
    storage = storage or LocalStorage()
    return read_history(str(trips.folder), storage, Kept(storage, {}), head=trips.newest)


def test_what_lies_below_a_gap_is_the_remains_of_an_expiry(trips: PaimonTable) -> None:
    """Snapshots leave by their numbers, so what is older than one that is gone has no files any more."""
    trips.snapshot_file(3).unlink()
    found = history_of(trips)
    assert [one.id for one in found.snapshots] == [4, 5, 6]
    assert (found.oldest, found.remains, found.count) == (4, (1, 2), 3)
    (warning,) = view_of(trips).warnings
    assert "2 snapshots lie below a gap (1 to 2)" in warning


def test_other_files_are_passed_over(trips: PaimonTable) -> None:
    """Hints, and what writers have not renamed yet."""
    for name in ("EARLIEST", ".snapshot-7.tmp", "snapshot-x", "snapshot-0007777777777777", "snapshot-7.tmp"):
        (trips.folder / "snapshot" / name).write_text("7")
    assert history_of(trips).count == 6


@pytest.mark.parametrize("left_out", ["snapshot-6", "snapshot-4"])
def test_a_listing_that_is_not_whole_is_asked_again_later(trips: PaimonTable, left_out: str) -> None:
    """No snapshot is taken for gone that is there."""
    with pytest.raises(TemporaryError, match=f"leaves out {left_out}, which is there"):
        history_of(trips, Forgetful(left_out))


def test_an_old_snapshot_that_cannot_be_read_is_a_fault(trips: PaimonTable) -> None:
    trips.snapshot_file(2).write_text("{")
    view = view_of(trips)
    assert [one.time[-1] for one in view.timeline.instants] == ["1", "3", "4", "5", "6"]
    assert "snapshot-2 is not a valid snapshot of a Paimon table" in view.faults[0]
