"""Which compaction was the last full one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakewarden.planners.formats.paimon.backlog import compactions
from tests.support.paimon.paimon_look import CountingStorage, facts_of, look
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "trips")
    table.append(table.file(0), table.file(1))
    return table


def test_one_that_writes_the_highest_level_alone_is_full(table: PaimonTable) -> None:
    """The levels are those of the table's options."""
    table.compact(level=5)
    table.append()
    table.compact(level=4)
    since = facts_of(table).since
    assert (since.last is not None and since.last.id, since.commits, since.any_commits) == (2, 1, 0)
    table.alter(num_levels="5")
    since = facts_of(table).since
    assert (since.last is not None and since.last.id, since.commits) == (4, 0)


def test_one_that_moves_files_to_the_highest_level_is_full(table: PaimonTable) -> None:
    """It writes none."""
    table.upgrade(level=5)
    assert facts_of(table).since.commits == 0


def test_every_compaction_of_an_append_table_counts(tmp_path: Path) -> None:
    """All of its files are of level 0."""
    table = PaimonTable(tmp_path / "events", keyed=False, options={})
    table.append()
    table.compact(level=0)
    table.append()
    assert facts_of(table).since.commits == 1


@pytest.mark.parametrize("keyed", [True, False])
def test_a_merge_of_manifests_by_another_program_is_no_compaction(tmp_path: Path, keyed: bool) -> None:
    """`sys.compact_manifest` makes a snapshot of the same kind, which names no file."""
    table = PaimonTable(tmp_path / "events", keyed=keyed)
    table.append()
    table.commit([], kind="COMPACT", user="a-procedure", merging=True)
    table.compact(level=5 if keyed else 0, user="lakewarden-1")
    table.append()
    table.commit([], kind="COMPACT", user="a-procedure", merging=True)
    found = facts_of(table).since
    assert (found.last is not None and found.last.id, found.commits, found.any_commits) == (3, 1, 1)
    assert found.idle == {2, 5}


def test_a_compaction_is_looked_at_once(table: PaimonTable) -> None:
    """What it wrote never changes."""
    table.compact(level=3)
    first = look(table)
    table.append(merging=True)
    counting = CountingStorage()
    second = look(table, first.memo, storage=counting)
    assert len([name for name in counting.read_files if name.startswith("manifest-list-")]) == 2
    assert second.facts.since == look(table).facts.since


def test_of_many_compactions_the_newest_are_looked_at(table: PaimonTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then all commits are counted that are known."""
    table.compact(level=5)
    for _ in range(3):
        table.append()
        table.compact(level=2)
    monkeypatch.setattr(compactions, "_MOST", 3)
    assert facts_of(table).since.commits == 4
    monkeypatch.setattr(compactions, "_MOST", 4)
    assert facts_of(table).since.commits == 3


def test_a_compaction_that_cannot_be_read_is_a_fault(table: PaimonTable) -> None:
    """It is taken for one that was not full."""
    table.compact(level=5)
    table.append(merging=True)
    (table.folder / "manifest" / table.snapshots[2]["deltaManifestList"]).write_bytes(b"")
    found = look(table)
    assert "is no manifest list" in found.faults[0]
    assert found.facts.since.commits == 2
