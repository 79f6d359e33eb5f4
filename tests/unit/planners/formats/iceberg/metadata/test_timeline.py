"""Snapshots as a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.iceberg.metadata import timeline as timelines
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Fate, Instant, InstantKind, RunId, Service, State, Timeline
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_look import view_of
from tests.support.iceberg.iceberg_table import IcebergTable

RUN = RunId("run-7")
OURS = {"lakewarden.run-id": RUN, "lakewarden.service": "compaction"}


class Lived(IcebergTable):
    """A table in which every commit comes a minute after the last."""

    def save(self) -> None:
        """Write the next version, and let a minute pass."""
        super().save()
        assert isinstance(self.clock, ManualClock)
        self.clock.advance(timedelta(minutes=1))


@pytest.fixture
def table(tmp_path: Path) -> Lived:
    return Lived(tmp_path / "trips")


def timeline(table: IcebergTable) -> Timeline:
    return view_of(table, Service.CLEAN).timeline


def instants(table: IcebergTable) -> list[Instant]:
    return list(timeline(table).instants)


def kinds(table: IcebergTable) -> list[Service | InstantKind]:
    return [instant.stands_for for instant in instants(table)]


def test_every_snapshot_is_an_instant_that_was_completed_when_it_was_committed(table: Lived) -> None:
    """Its name contains the time and the snapshot."""
    at = table.clock.now()
    snapshot = table.append()
    (instant,) = instants(table)
    assert instant.time == instant.completed_time == f"{round(at.timestamp() * 1000)}-{snapshot}"
    assert (instant.state, instant.requested_at, instant.completed_at) == (State.COMPLETED, at, at)
    assert (instant.action, instant.stands_for, instant.author) == ("append", InstantKind.WRITE, None)


def test_of_a_long_history_the_newest_is_shown_and_what_is_ours(table: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each observation shows all of it again. Commits are counted as far back as the table knows them. A run of ours is
    settled by its commit, however many commits followed.
    """
    monkeypatch.setattr(timelines, "MOST", 3)
    table.append()
    table.rewrite(summary=OURS)
    snapshots = [table.append(table.file(1)) for _ in range(9)]
    shown = view_of(table, Service.COMPACTION)
    assert [instant.author for instant in shown.timeline.instants] == [RUN, None, None, None]
    assert [instant.time.rpartition("-")[2] for instant in shown.timeline.instants[1:]] == [*map(str, snapshots[-3:])]
    assert shown.timeline.fate(run=RUN, instant=None) is Fate.COMPLETED
    assert shown.backlogs[Service.COMPACTION].commits == 9


def test_the_last_service_of_others_counts_though_it_is_not_shown(
    table: Lived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The backlog is the commits since that service."""
    monkeypatch.setattr(timelines, "MOST", 3)
    table.append()
    table.rewrite()
    for _ in range(9):
        table.append(table.file(1))
    assert view_of(table).backlogs[Service.COMPACTION].commits == 9


@pytest.mark.parametrize("operation", ["append", "overwrite", "delete"])
def test_what_changes_rows_is_a_write(table: Lived, operation: str) -> None:
    """This holds for every writer and operation. Only `replace` leaves the rows as they are."""
    table.commit(operation, add=[table.file()], summary=OURS)
    (instant,) = instants(table)
    assert (instant.stands_for, instant.author) == (InstantKind.WRITE, None)


def test_maintenance_of_others_is_told_by_what_it_replaced(table: Lived) -> None:
    """If files were replaced, it is a compaction. If only manifests were replaced, it is an archive. Neither is new
    data.
    """
    table.append()
    table.rewrite()
    table.rewrite_manifests()
    assert kinds(table) == [InstantKind.WRITE, Service.COMPACTION, Service.ARCHIVE]
    assert all(instant.author is None for instant in instants(table))


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE])
def test_what_is_ours_says_which_service_and_which_run(table: Lived, service: Service) -> None:
    """So a run that died before its report is settled by its name."""
    table.append()
    table.rewrite(summary={"lakewarden.run-id": RUN, "lakewarden.service": service.value})
    found = timeline(table).of_run(run=RUN, instant=None)
    assert found is not None
    assert (found.stands_for, found.author, found.partial) == (service, RUN, False)
    assert timeline(table).fate(run=RUN, instant=None) is Fate.COMPLETED


def test_a_part_is_not_the_end_of_its_run(table: Lived) -> None:
    """Until the last part follows, the end of the run is not known."""
    table.append()
    table.rewrite(summary={**OURS, "lakewarden.part": "more"})
    assert timeline(table).fate(run=RUN, instant=None) is Fate.ABSENT
    table.rewrite(summary=OURS)
    assert timeline(table).fate(run=RUN, instant=None) is Fate.COMPLETED


@pytest.mark.parametrize("summary", [{"lakewarden.run-id": RUN}, {**OURS, "lakewarden.service": "unheard-of"}])
def test_a_service_that_is_not_named_rightly_is_told_as_of_others(table: Lived, summary: Mapping[str, str]) -> None:
    """It is recognised by its files. Its run is still known."""
    table.append()
    table.rewrite(summary=summary)
    last = instants(table)[-1]
    assert (last.stands_for, last.author) == (Service.COMPACTION, RUN)


def test_what_the_current_snapshot_does_not_come_from_is_no_write_of_the_table(table: Lived) -> None:
    """Readers see neither commits of another branch nor commits that were rolled back."""
    first = table.append()
    table.commit("append", add=[table.file()], branch="audit")
    table.append()
    table.rewrite(summary=OURS)
    assert kinds(table) == [InstantKind.WRITE, InstantKind.OTHER, InstantKind.WRITE, Service.COMPACTION]
    table.roll_back(first)
    assert kinds(table) == [InstantKind.WRITE, InstantKind.OTHER, InstantKind.OTHER, InstantKind.OTHER]


def test_a_run_whose_commit_was_rolled_back_had_committed(table: Lived) -> None:
    """The end of a run does not change by what happens to its commit later."""
    first = table.append()
    table.rewrite(summary=OURS)
    table.roll_back(first)
    assert timeline(table).fate(run=RUN, instant=None) is Fate.COMPLETED


def test_nothing_is_told_of_a_snapshot_that_is_not_there(table: Lived) -> None:
    """Tags and branches keep older snapshots, so the oldest need not leave first."""
    first = table.append()
    table.append()
    gone = instants(table)[0].time
    table.append()
    table.expire(first)
    assert timeline(table).oldest_leave_first is False
    assert timeline(table).fate(run=RUN, instant=gone) is Fate.ABSENT


def test_instants_are_in_the_order_of_their_times(table: Lived) -> None:
    """This holds for any order in the metadata file."""
    for _ in range(4):
        table.append()
    table.snapshots = dict(reversed(table.snapshots.items()))
    table.save()
    assert instants(table) == sorted(instants(table), key=lambda instant: instant.time)
    assert len(instants(table)) == 4


def _with_statistics(table: Lived, *paths: str) -> TableMetadata:
    """Return the table with the statistics of its newest snapshot in these files."""
    metadata = read_table(str(table.metadata_file), LocalStorage())
    assert metadata.current is not None
    return replace(metadata, statistics_of={metadata.current: paths})


def test_statistics_tell_by_their_file_which_run_computed_them_and_since_when(table: Lived) -> None:
    """They add no snapshot. Statistics of other clients begin with their snapshot. Partition statistics are no column
    statistics.
    """
    snapshot, began = table.append(), table.clock.now()
    ours = f"s3://lake/trips/metadata/{timelines.statistics_file(snapshot, RUN, began)}"
    found = timelines.timeline_of(_with_statistics(table, ours))
    instant = found.instants[-1]
    assert (instant.stands_for, instant.author, instant.state) == (Service.TABLE_STATS, RUN, State.COMPLETED)
    assert instant.requested_at == instant.completed_at == began
    assert found.fate(run=RUN, instant=None) is Fate.COMPLETED

    of_another = f"{snapshot}-5c0ffee5-d9a1-4b6e-9f6e-0123456789ab.stats"
    theirs = timelines.timeline_of(_with_statistics(table, of_another)).instants
    (foreign,) = [one for one in theirs if one.stands_for is Service.TABLE_STATS]
    assert (foreign.author, foreign.requested_at) == (None, theirs[0].requested_at)

    of_partitions = _with_statistics(table, f"/lake/metadata/partition-stats-{snapshot}-5c0ffee5.parquet")
    assert Service.TABLE_STATS not in [one.stands_for for one in timelines.timeline_of(of_partitions).instants]
    assert not timelines.has_statistics(of_partitions, snapshot)
    assert timelines.has_statistics(_with_statistics(table, of_another), snapshot)
