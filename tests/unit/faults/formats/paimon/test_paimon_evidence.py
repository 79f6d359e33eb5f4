"""The evidence of a Paimon table: our snapshots by their runs, and damage that the checker finds."""

from __future__ import annotations

from pathlib import Path

import pytest

from faults.checking.checker import Rule, violations
from faults.checking.history import SUCCEEDED, History, StoredRun
from faults.formats.paimon.evidence import files_needed, rows_changed, timeline_found
from live.paimon.history import SnapshotsSeen
from live.paimon.plain_reader import PlainReader
from tests.support.paimon.paimon_rows import INSERT, OrdersTable


@pytest.fixture
def table(tmp_path: Path) -> OrdersTable:
    table = OrdersTable(tmp_path / "orders")
    table.write(("a", 1, INSERT), identifier=1)
    table.write(("a", 2, INSERT), identifier=2)
    return table


def broken(table: OrdersTable, *runs: str) -> set[Rule]:
    """Return the rules that the history breaks, if these runs succeeded."""
    seen, reader = SnapshotsSeen(table.folder), PlainReader(table.folder)
    seen.look()
    stored = [
        StoredRun(id=run, identity="t", service="compaction", state=SUCCEEDED, instant=None, epoch=n, ended=True)
        for n, run in enumerate(runs, start=1)
    ]
    history = History(
        needed=files_needed(reader),
        files=reader.files_there(),
        timeline=timeline_found(seen),
        runs=stored,
        changed=rows_changed(reader, seen),
        exclusive=frozenset(),
        signed=frozenset({"compaction"}),
    )
    return {violation.rule for violation in violations(history)}


def test_a_success_without_a_snapshot_and_a_snapshot_without_a_success_are_found(table: OrdersTable) -> None:
    """The store and the table must say the same. A compaction that changes no row breaks no rule."""
    assert broken(table, "run1") == {Rule.STORE}
    table.rewrite(("a", 2, INSERT))
    assert broken(table) == {Rule.STORE}
    assert broken(table, "run1") == set()


def test_a_manifest_that_is_gone_is_a_file_that_is_needed(table: OrdersTable) -> None:
    """The snapshot cannot be read without it."""
    table.manifest_file(table.manifests[1][0]).unlink()
    assert broken(table) == {Rule.FILES}


def test_a_snapshot_that_overwrites_is_one_of_a_ttl(table: OrdersTable) -> None:
    """So the run that it names must be of that service, too."""
    table.commit([(1, table.live()[0])], kind="OVERWRITE", user="lakewarden-run1")
    seen = SnapshotsSeen(table.folder)
    seen.look()
    assert list(timeline_found(seen).completed.values()) == ["ttl"]
    assert Rule.STORE in broken(table, "run1")


def test_changed_rows_and_files_that_are_gone_are_found(table: OrdersTable) -> None:
    """A snapshot that cannot be read changes no row: its missing file is the finding."""
    table.rewrite(("a", 1, INSERT))
    assert broken(table, "run1") == {Rule.CHANGED}
    table.place(table.live(1)[0].name).unlink()
    assert broken(table, "run1") == {Rule.FILES}
