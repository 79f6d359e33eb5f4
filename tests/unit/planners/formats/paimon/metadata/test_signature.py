"""How the commits of Lakewarden are told from those of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.metadata.heads import commit_user, is_of_manifests, run_of
from lakewarden.planners.model.instant import Fate, RunId, Service
from tests.support.paimon.paimon_look import view_of
from tests.support.paimon.paimon_table import PaimonTable


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
