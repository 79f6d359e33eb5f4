"""The newest snapshot is found, whatever the hint says."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.metadata.heads import Heads, commit_user, is_of_manifests, run_of
from lakewarden.planners.model.instant import Fate, RunId, Service
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


@pytest.mark.parametrize("hint", ["5", "3", "1", "9", "0", "-1", "x", "", " 5\n", "5" * 70, "99999999999999999999"])
def test_a_hint_may_say_anything(table: PaimonTable, hint: str) -> None:
    """A stale one is where the search begins, and any other is passed over."""
    (table.folder / "snapshot" / "LATEST").write_text(hint)
    assert newest(table) == 5


def test_a_hint_may_be_missing(table: PaimonTable) -> None:
    """As it is where the writer died before it wrote one."""
    (table.folder / "snapshot" / "LATEST").unlink()
    assert newest(table) == 5


def test_a_hint_to_the_remains_of_an_expiry_is_passed_over(table: PaimonTable) -> None:
    """What lies below a gap is no head, once the folder was listed."""
    table.snapshot_file(3).unlink()
    (table.folder / "snapshot" / "LATEST").write_text("4")
    assert newest(table) == 5


def test_many_commits_beyond_a_hint_are_not_asked_for_one_by_one(table: PaimonTable) -> None:
    """The folder is listed in their place."""
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


def test_a_table_without_a_snapshot_has_no_head(tmp_path: Path) -> None:
    """It has a schema, and so it is a table."""
    assert newest(PaimonTable(tmp_path / "new")) is None


# How the commits of Lakewarden are told from those of others.


def test_a_commit_user_names_its_run() -> None:
    """And no other commit user names one."""
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
