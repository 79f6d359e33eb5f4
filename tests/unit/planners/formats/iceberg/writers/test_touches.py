"""Which partitions the writers touched, when, and which of the commits a rewrite could make fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.activity import is_update, kept_off_for_branches
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Touch, WriterActivity
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_look import CountingStorage, look, view_of
from tests.support.iceberg.iceberg_table import EQUALITY_DELETES, POSITION_DELETES, IcebergTable
from tests.support.iceberg.iceberg_values import a_metadata, a_snapshot
from tests.support.values import NOW

MINUTE = timedelta(minutes=1)
FLINK = {"flink.job-id": "a1b2"}
OURS = {"lakewarden.run-id": "r", "lakewarden.service": "compaction"}


class Tended:
    """A table with its clock, and the time of each commit."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.table = IcebergTable(folder / "trips", clock=self.clock)
        self.start = self.clock.now()

    def at(self, minute: float) -> IcebergTable:
        """Move the clock to so many minutes after the start."""
        self.clock.advance(self.start + minute * MINUTE - self.clock.now())
        return self.table

    def merged(self, minute: float, *partitions: int) -> int:
        """Let a MERGE change rows of partitions, by position deletes and new rows."""
        table = self.at(minute)
        deletes = [table.file(p, content=POSITION_DELETES) for p in partitions]
        return table.commit("overwrite", add=[*deletes, *(table.file(p) for p in partitions)])

    def writers(self, **options: Any) -> WriterActivity:
        """Return the writers as an observation shows them now."""
        return view_of(self.table, **options).writers

    def updated(self, **options: Any) -> dict[str, float]:
        """Return when each partition was last updated, in minutes after the start."""
        return {name: self.minutes(touch.at) for name, touch in self._known(**options).items() if touch.updates}

    def new(self) -> dict[str, float]:
        """Return when the new partitions without an update were created, in minutes after the start."""
        return {name: self.minutes(touch.at) for name, touch in self._known().items() if not touch.updates}

    def touched(self) -> dict[str, float]:
        """Return when each partition was last written to, in minutes after the start."""
        return {name: self.minutes(touch.at) for name, touch in (self.writers().touches or {}).items()}

    def _known(self, **options: Any) -> Mapping[str, Touch]:
        return self.writers(**options).updated or {}

    def minutes(self, at: datetime) -> float:
        return (at - self.start) / MINUTE


@pytest.fixture
def tended(tmp_path: Path) -> Tended:
    return Tended(tmp_path)


def test_an_update_heats_the_partitions_that_it_wrote_to_and_no_other(tended: Tended) -> None:
    """Appends and commits of Lakewarden make no partition hot."""
    tended.at(0).append(tended.table.file(0), tended.table.file(1), tended.table.file(2))
    tended.merged(1, 1)
    tended.at(2).append(tended.table.file(2))
    tended.at(3).rewrite(p=0, summary=OURS)
    assert tended.updated() == {"p=1": 1}
    assert tended.touched() == {"p=0": 2, "p=1": 1, "p=2": 2}


def test_a_partition_that_came_to_be_beside_an_updater_is_told_as_new(tended: Tended) -> None:
    """It is new from its first append until a rewrite takes it, for the rewrite found it old enough."""
    tended.at(0).append(tended.table.file(0))
    assert tended.new() == {}, "no writer changes rows"
    tended.merged(1, 0)
    tended.at(2).append(tended.table.file(1))
    tended.at(3).append(tended.table.file(1), tended.table.file(2))
    assert tended.new() == {"p=1": 2, "p=2": 3}
    tended.merged(4, 1)
    assert tended.new() == {"p=2": 3}
    tended.at(5).rewrite(p=2, summary=OURS)
    assert tended.new() == {}


def test_an_update_that_only_removes_files_heats_their_partition(tended: Tended) -> None:
    """No live file shows it. The manifests of the update do."""
    dropped = tended.table.file(1)
    tended.at(0).append(tended.table.file(0), dropped)
    tended.at(1).commit("delete", remove=[dropped])
    assert tended.updated() == {"p=1": 1}


def test_an_update_heats_nothing_that_an_earlier_one_did(tended: Tended) -> None:
    """Manifests name removed files for as long as the table has the manifests."""
    dropped = tended.table.file(1)
    tended.at(0).append(tended.table.file(0), dropped)
    tended.at(1).commit("delete", remove=[dropped])
    tended.merged(2, 0)
    assert tended.updated() == {"p=0": 2, "p=1": 1}


def test_an_update_is_remembered_when_a_rewrite_has_replaced_its_files(tended: Tended) -> None:
    """Its writer is still there, and will commit again."""
    tended.at(0).append()
    tended.merged(1, 0)
    tended.at(1.5).rewrite(p=0, summary=OURS)
    assert tended.updated() == {"p=0": 1}


def test_updates_are_read_back_as_far_as_they_keep_us_off(tended: Tended) -> None:
    """The time is three usual intervals, or a minute. Older updates without a remaining file are forgotten."""
    for minute in range(10):
        tended.merged(minute, minute)
    for p in range(10):
        tended.at(10).rewrite(p=p, summary=OURS)
    assert tended.updated() == {f"p={p}": p for p in (6, 7, 8, 9)}
    assert tended.updated(quiet_intervals=1) == {"p=8": 8, "p=9": 9}
    assert tended.updated(quiet_intervals=0, quiet_for="5m") == {f"p={p}": p for p in (4, 5, 6, 7, 8, 9)}


def test_the_newest_update_of_a_partition_counts_and_says_when_the_one_before_was(tended: Tended) -> None:
    """Each partition has an interval of its own. It keeps the interval after a rewrite has replaced all its files."""
    for minute in (0, 2, 3):
        tended.merged(minute, 0)
    seen = [(tended.writers().updated or {})["p=0"]]
    tended.at(3.5).rewrite(summary=OURS)
    seen.append((tended.writers().updated or {})["p=0"])
    assert [(tended.minutes(touch.at), tended.minutes(touch.before or tended.start)) for touch in seen] == [(3, 2)] * 2


def test_cadences_of_writes_and_of_updates_are_told_apart(tended: Tended) -> None:
    """An appender beside a MERGE writer does not make the MERGE writer look faster. Services count for neither."""
    for minute in range(0, 12, 2):
        tended.at(minute).append()
        tended.merged(minute + 0.5, 0) if minute % 4 == 0 else tended.at(minute + 1).rewrite(summary=OURS)
    writers = tended.writers()
    assert writers.update_interval == 4 * MINUTE
    assert writers.usual_interval is not None
    assert writers.usual_interval < 2 * MINUTE
    assert tended.minutes(writers.last_commit_at or tended.start) == 10


@pytest.mark.parametrize(
    ("operation", "kinds", "summary", "expected"),
    [
        ("append", [0], {}, False),
        ("overwrite", [0], {}, True),
        ("delete", [POSITION_DELETES], {}, True),
        ("overwrite", [EQUALITY_DELETES, 0], {}, False),
        ("overwrite", [EQUALITY_DELETES, POSITION_DELETES, 0], {}, True),
        ("overwrite", [EQUALITY_DELETES, POSITION_DELETES, 0], FLINK, False),
        ("delete", [], {"deleted-data-files": "2"}, True),
        ("overwrite", [EQUALITY_DELETES], {"deleted-data-files": "2"}, True),
        ("delete", [], {}, True),
        ("replace", [0], {}, False),
    ],
)
def test_which_commits_a_rewrite_could_hurt(
    tmp_path: Path, operation: str, kinds: list[int], summary: dict[str, str], expected: bool
) -> None:
    """They are the commits of writers that look for the files that they have read. Appenders, deletes by values alone
    and Flink do not. An unknown commit could fail.
    """
    table = IcebergTable(tmp_path / "trips")
    table.commit(operation, add=[table.file(content=kind) for kind in kinds], summary=summary)
    snapshot = read_table(str(table.metadata_file), LocalStorage()).current_snapshot
    assert snapshot is not None
    assert is_update(snapshot) is expected


def test_nothing_is_told_of_partitions_where_no_policy_asks(tended: Tended) -> None:
    """Then no manifest is read at all. The intervals are known all the same."""
    for minute in range(3):
        tended.merged(minute, 0)
    counting = CountingStorage()
    seen = look(tended.table, Service.CLEAN, storage=counting)
    assert (seen.view.writers.touches, seen.view.writers.updated) == (None, None)
    assert seen.view.writers.usual_interval == MINUTE
    assert not [name for name in counting.names if name.endswith("-m0.avro")]


# No commit of Lakewarden comes between main and a branch that is about to become main.

HOUR = timedelta(hours=1)


def branched(main: int, branch: int, *snapshots: Snapshot, is_branch: bool = True) -> TableMetadata:
    """Return a table with a branch `audit` besides main, by the ids of their heads."""
    refs = tuple(
        Ref(name=name, is_branch=name == MAIN or is_branch, snapshot=at)
        for name, at in ((MAIN, main), ("audit", branch))
    )
    return a_metadata(*snapshots, current=main, refs=refs)


def kept(table: TableMetadata, **options: str) -> dict[Service, NotDue]:
    """Return the services that are kept off main now."""
    return dict(kept_off_for_branches(table, IcebergTableOptions(**options), NOW))


A_LINE = (a_snapshot(1, ago=9 * HOUR), a_snapshot(2, ago=8 * HOUR), a_snapshot(3, ago=3 * HOUR))


def test_nothing_of_ours_is_committed_to_main_while_a_branch_can_still_become_it() -> None:
    """After its audit, the branch is published by a fast-forward. Clean adds no snapshot and continues."""
    found = kept(branched(1, 3, *A_LINE))

    assert set(found) == {Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE}
    assert found[Service.COMPACTION].again_at == NOW + 21 * HOUR
    assert found[Service.COMPACTION].reason == (
        "branch 'audit' is ahead of main, last written at 09:00:00 UTC: after a commit of Lakewarden fast_forward "
        "could not publish it. It is waited for as long as 1d"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_branch_that_is_not_ahead_blocks_no_commit(version: int) -> None:
    """A branch cannot become main after main has moved on. A branch at main or behind it is published. A tag never
    becomes main.
    """
    line = A_LINE if version == 2 else tuple(replace(one, sequence=0) for one in A_LINE)
    aside = replace(line[2], parent=1)

    assert kept(branched(1, 3, *line))
    assert kept(branched(3, 3, *line)) == {}
    assert kept(branched(3, 1, *line)) == {}
    assert kept(branched(2, 3, line[0], line[1], aside)) == {}
    assert kept(branched(1, 3, *line, is_branch=False)) == {}


def test_a_branch_that_was_given_up_is_not_waited_for() -> None:
    """The wait is as long as its writer may be away."""
    assert kept(branched(1, 3, *A_LINE), longest_outage="4h")
    assert kept(branched(1, 3, *A_LINE), longest_outage="3h") == {}
