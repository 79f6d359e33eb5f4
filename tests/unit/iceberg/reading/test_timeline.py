"""Snapshots as a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.iceberg.metadata import timeline as timelines
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Deed, Instant, RunId, Service, State
from lakewarden.planners.model.timeline import Fate, Timeline
from tests.support.iceberg_look import view_of
from tests.support.iceberg_table import IcebergTable

RUN = RunId("run-7")
OURS = {"lakewarden.run-id": RUN, "lakewarden.service": "compaction"}


class Lived(IcebergTable):
    """A table of which every commit comes a minute after the last."""

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


def kinds(table: IcebergTable) -> list[Service | Deed]:
    return [instant.stands_for for instant in instants(table)]


def test_every_snapshot_is_an_instant_that_was_completed_when_it_was_committed(table: Lived) -> None:
    """Its name tells when that was, and which snapshot it is."""
    at = table.clock.now()
    snapshot = table.append()
    (instant,) = instants(table)
    assert instant.time == instant.completed_time == f"{round(at.timestamp() * 1000)}-{snapshot}"
    assert (instant.state, instant.requested_at, instant.completed_at) == (State.COMPLETED, at, at)
    assert (instant.action, instant.stands_for, instant.author) == ("append", Deed.WRITE, None)


def test_of_a_long_history_the_newest_is_shown_and_what_is_ours(table: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look shows all of it again. Commits are counted as far back as the table knows them, and a run of ours is
    settled by its commit however many came after it.
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
    """The commits since are those that have piled up."""
    monkeypatch.setattr(timelines, "MOST", 3)
    table.append()
    table.rewrite()
    for _ in range(9):
        table.append(table.file(1))
    assert view_of(table).backlogs[Service.COMPACTION].commits == 9


@pytest.mark.parametrize("operation", ["append", "overwrite", "delete"])
def test_what_changes_rows_is_a_write(table: Lived, operation: str) -> None:
    """Whoever did it and however: only `replace` leaves the rows as they are."""
    table.commit(operation, add=[table.file()], summary=OURS)
    (instant,) = instants(table)
    assert (instant.stands_for, instant.author) == (Deed.WRITE, None)


def test_maintenance_of_others_is_told_by_what_it_replaced(table: Lived) -> None:
    """Files are a compaction, manifests alone an archive; neither is new data."""
    table.append()
    table.rewrite()
    table.rewrite_manifests()
    assert kinds(table) == [Deed.WRITE, Service.COMPACTION, Service.ARCHIVE]
    assert all(instant.author is None for instant in instants(table))


@pytest.mark.parametrize("service", [Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE])
def test_what_is_ours_says_which_service_and_which_run(table: Lived, service: Service) -> None:
    """So a run that died before it could tell is settled by its name."""
    table.append()
    table.rewrite(summary={"lakewarden.run-id": RUN, "lakewarden.service": service.value})
    found = timeline(table).of_run(run=RUN, instant=None)
    assert found is not None
    assert (found.stands_for, found.author, found.partial) == (service, RUN, False)
    assert timeline(table).fate(run=RUN, instant=None) is Fate.COMPLETED


def test_a_part_is_not_the_end_of_its_run(table: Lived) -> None:
    """Until a whole one follows it is not known how the run ended."""
    table.append()
    table.rewrite(summary={**OURS, "lakewarden.part": "more"})
    assert timeline(table).fate(run=RUN, instant=None) is Fate.ABSENT
    table.rewrite(summary=OURS)
    assert timeline(table).fate(run=RUN, instant=None) is Fate.COMPLETED


@pytest.mark.parametrize("summary", [{"lakewarden.run-id": RUN}, {**OURS, "lakewarden.service": "unheard-of"}])
def test_a_service_that_is_not_named_rightly_is_told_as_of_others(table: Lived, summary: Mapping[str, str]) -> None:
    """By its files. Whose run it was is still known."""
    table.append()
    table.rewrite(summary=summary)
    last = instants(table)[-1]
    assert (last.stands_for, last.author) == (Service.COMPACTION, RUN)


def test_what_the_current_snapshot_does_not_come_from_is_no_write_of_the_table(table: Lived) -> None:
    """Another branch, and what was rolled back: readers do not see it."""
    first = table.append()
    table.commit("append", add=[table.file()], branch="audit")
    table.append()
    table.rewrite(summary=OURS)
    assert kinds(table) == [Deed.WRITE, Deed.OTHER, Deed.WRITE, Service.COMPACTION]
    table.roll_back(first)
    assert kinds(table) == [Deed.WRITE, Deed.OTHER, Deed.OTHER, Deed.OTHER]


def test_a_run_whose_commit_was_rolled_back_had_committed(table: Lived) -> None:
    """How it ended does not change with what was done to it afterwards."""
    first = table.append()
    table.rewrite(summary=OURS)
    table.roll_back(first)
    assert timeline(table).fate(run=RUN, instant=None) is Fate.COMPLETED


def test_nothing_is_told_of_a_snapshot_that_is_not_there(table: Lived) -> None:
    """Tags and branches hold older ones back, so the oldest need not be the first to leave."""
    first = table.append()
    table.append()
    gone = instants(table)[0].time
    table.append()
    table.expire(first)
    assert timeline(table).oldest_leave_first is False
    assert timeline(table).fate(run=RUN, instant=gone) is Fate.ABSENT


def test_instants_are_in_the_order_of_their_times(table: Lived) -> None:
    """Whatever the order of the metadata file."""
    for _ in range(4):
        table.append()
    table.snapshots = dict(reversed(table.snapshots.items()))
    table.save()
    assert instants(table) == sorted(instants(table), key=lambda instant: instant.time)
    assert len(instants(table)) == 4
