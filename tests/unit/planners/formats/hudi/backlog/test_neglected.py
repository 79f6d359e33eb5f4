"""A neglected table is recovered in bounded steps, and says in which."""

from __future__ import annotations

import dataclasses
import gc
import tracemalloc
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.backlog.cold_partitions import (
    ColdPartitions,
    cold_partitions,
    disturbed,
    known_since,
)
from lakewarden.planners.formats.hudi.backlog.neglected import Bisection, Uncleaned, first_slice, uncleaned
from lakewarden.planners.formats.hudi.options.service_options import ArchiveOptions, CleanOptions, CleanPolicy
from lakewarden.planners.model.instant import InstantKind, Service, State, Timeline
from lakewarden.planners.model.table import DeletionBudget, Policy
from lakewarden.planners.model.view import TableView, Touch, WriterActivity
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits
from tests.support.hudi.hudi_look import made, registered, seen
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content
from tests.support.values import NOW, an_instant

RETAINED = 10


def neglected(folder: Path, *, commits: int) -> tuple[HudiTable, list[str]]:
    table = made(folder)
    times = []
    for _ in range(commits):
        times.append(table.write({"p0": []}))
    return table, times


def looked(table: HudiTable, previous: Observation | None = None, **options: Any) -> Observation:
    wanted = dataclasses.replace(
        registered(table),
        budget=DeletionBudget(files=5000),
        policies={
            Service.CLEAN: Policy(trigger=NumCommits(at_least=1), options=CleanOptions.model_validate(options)),
            Service.ARCHIVE: Policy(trigger=NumCommits(at_least=10), options=ArchiveOptions()),
        },
    )
    return HUDI.observe(wanted, storage_for(str(table.folder)), previous, now=table.clock.now())


@given(
    per_commit=st.lists(st.integers(0, 50), min_size=1, max_size=300),
    most=st.integers(1, 3000),
    begin=st.integers(1, 300),
)
def test_a_slice_that_fits_is_found_if_there_is_one(per_commit: list[int], most: int, begin: int) -> None:
    """A handful of plans is enough, whatever the commits had written. If none fits, the smallest one that is not empty
    is left.
    """
    plans = [sum(per_commit[:commits]) for commits in range(len(per_commit) + 1)]
    slices, tried = Bisection(begin, all_of_it=len(per_commit)), 1
    found = None
    while True:
        files = plans[slices.commits]
        if files == 0:
            if not slices.was_empty():
                break
        elif files <= most or not slices.was_too_large():
            found = slices.commits
            break
        tried += 1
    assert tried <= 20
    if found is None:
        assert not any(0 < files <= most for files in plans) or plans[-1] == 0
    elif plans[found] > most:
        assert not any(0 < files <= most for files in plans)


@given(files=st.lists(st.integers(0, 400), min_size=1, max_size=50), most=st.integers(1, 1000))
def test_a_slice_begins_with_what_its_commits_wrote(files: list[int], most: int) -> None:
    """It has at least one commit. Unless one alone is more, its commits wrote no more files than may be deleted."""
    commits = tuple(an_instant(time=str(n)) for n in range(len(files)))
    found = Uncleaned(commits=commits, kept=0, slices_from=1)
    chosen = first_slice(found, lambda commit: files[int(commit.time)], most=most)
    assert 1 <= chosen <= len(files)
    assert chosen == 1 or sum(files[:chosen]) <= most


def test_a_slice_that_was_cleaned_leaves_the_rest_to_be_cleaned_at_once(tmp_path: Path) -> None:
    """Hudi's clean says that it has seen all commits, although it was told to keep most of what they wrote."""
    table, times = neglected(tmp_path, commits=300)
    before = looked(table).view
    assert before.backlogs[Service.CLEAN].commits == 300
    assert before.notes[Service.CLEAN] == (
        "290 commits are to be cleaned, in slices of at most 5,000 files, the oldest first. The retention comes down "
        "to the newest 10 commits step by step",
    )
    clean = table.plan_clean()
    table.start(clean, "clean")
    table.complete_clean(clean, seen=times[-1], retained=times[80])
    after = looked(table).view
    assert after.backlogs[Service.CLEAN].commits == 300 - 80 - RETAINED
    assert "210 commits are to be cleaned" in after.notes[Service.CLEAN][0]
    clean = table.plan_clean()
    table.start(clean, "clean")
    table.complete_clean(clean, seen=times[-1], retained=times[-RETAINED])
    done = looked(table).view
    assert (done.backlogs[Service.CLEAN].commits, Service.CLEAN in done.notes) == (0, False)


@pytest.mark.parametrize(
    "options",
    [{"slices_from_commits": None}, {"policy": CleanPolicy.KEEP_LATEST_FILE_VERSIONS}, {"commits_retained": 400}],
)
def test_what_is_not_taken_in_slices_is_cleaned_as_it_was(tmp_path: Path, options: dict[str, Any]) -> None:
    """Slices may be off, versions may be counted, or little may have to be cleaned."""
    table, times = neglected(tmp_path, commits=300)
    clean = table.plan_clean()
    table.start(clean, "clean")
    table.complete_clean(clean, seen=times[-1], retained=times[50])
    view = looked(table, **options).view
    assert (view.backlogs[Service.CLEAN].commits, Service.CLEAN in view.notes) == (0, False)


def test_hours_are_counted_as_commits(tmp_path: Path) -> None:
    """A slice ends at a commit, whatever the policy's unit is."""
    table, times = neglected(tmp_path, commits=200)
    table.clock.advance(timedelta(hours=30))
    recent = [table.write({"p0": []}) for _ in range(5)]
    options = CleanOptions(policy=CleanPolicy.KEEP_LATEST_BY_HOURS, hours_retained=24)
    found = uncleaned(seen(table).timeline, options, retained=times[20], now=table.clock.now())
    assert found is not None
    assert (len(found.commits), found.kept, found.excess, found.neglected) == (185, len(recent), 180, True)


@pytest.mark.long
def test_a_table_of_thousands_of_commits_is_seen_in_bounded_memory(tmp_path: Path) -> None:
    """Each commit on the timeline takes some kilobytes, whatever it wrote. Later observations read only new commits."""
    table = made(tmp_path)
    content = commit_content({f"p{p}": [base_file(f"g{p}-{n}", "1") for n in range(20)] for p in range(5)})
    for _ in range(1500):
        table.commit_write(table.begin_write(), content=content)
    looked(table)
    gc.collect()
    tracemalloc.start()
    try:
        first = looked(table)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / 1500 < 12_000
    assert _services(first.view) == {Service.CLEAN, Service.ARCHIVE}
    assert looked(table, first).view.timeline == first.view.timeline


def _services(view: TableView) -> set[Service]:
    return {service for service, notes in view.notes.items() if any("commits" in note for note in notes)}


# Which partitions a clustering may take.

HOUR = timedelta(hours=1)
LONG_AGO = NOW - timedelta(days=9)


def _touched(ago: timedelta, *, instant: str = "00000010", updates: bool = True) -> Touch:
    return Touch(at=NOW - ago, instant=instant, updates=updates)


def _cold(
    partitions: set[str],
    touches: dict[str, Touch],
    *,
    touching: frozenset[str] = frozenset(),
    since: datetime | None = LONG_AGO,
    matching: str | None = None,
) -> ColdPartitions:
    return cold_partitions(
        partitions, touches, touching=touching, known_since=since, untouched_for=HOUR, matching=matching, now=NOW
    )


PATHS = st.sampled_from(["", "a", "b", "day=1", "day=2/hour=3", "a,b", "ü &%20'"])
AGES = st.integers(0, 7200).map(lambda seconds: timedelta(seconds=seconds))


@given(
    st.sets(PATHS),
    st.dictionaries(PATHS, st.builds(_touched, AGES)),
    st.frozensets(PATHS),
    st.none() | AGES.map(lambda age: NOW - age),
)
def test_nothing_warm_is_ever_taken(
    partitions: set[str], touches: dict[str, Touch], touching: frozenset[str], since: datetime | None
) -> None:
    """A partition that is taken exists, was left alone for long enough as far as is known, and has a name for Hudi."""
    found = _cold(partitions, touches, touching=touching, since=since)

    for path in found.partitions:
        assert path in partitions
        assert path not in touching
        assert "," not in path
        last = touches[path].at if path in touches else since
        assert last is None or last <= NOW - HOUR


def test_a_partition_is_cold_from_the_very_end_of_its_time_on() -> None:
    """Appends count like updates, because a writer that appends may update at any moment."""
    touches = {"a": _touched(HOUR), "b": _touched(HOUR - timedelta(seconds=1), updates=False)}

    assert _cold({"a", "b"}, touches) == ColdPartitions(partitions=("a",), next_at=NOW + timedelta(seconds=1))


def test_what_left_the_timeline_is_taken_for_touched_until_the_timeline_begins() -> None:
    """A timeline that reaches back ten minutes proves nothing about the hour before."""
    begins = NOW - timedelta(minutes=10)

    assert _cold({"a"}, {}, since=begins) == ColdPartitions(partitions=(), next_at=begins + HOUR)
    assert _cold({"a"}, {}, since=LONG_AGO).partitions == ("a",)


def test_a_commit_held_by_a_savepoint_does_not_say_how_far_back_the_timeline_reaches() -> None:
    """Its neighbours may have been archived while it stayed."""
    saved = an_instant(time="00000001", requested_at=LONG_AGO)
    savepoint = an_instant(time="00000001", stands_for=InstantKind.SAVEPOINT, requested_at=LONG_AGO)
    clean = an_instant(time="00000002", stands_for=Service.CLEAN, requested_at=LONG_AGO)
    write = an_instant(time="00000003", requested_at=NOW)

    assert known_since(Timeline(instants=(saved, savepoint, clean, write))) == NOW
    assert known_since(Timeline(instants=(saved, savepoint))) is None


def test_only_whole_paths_match() -> None:
    """As in Hudi, the expression is for the whole path."""
    assert _cold({"day=1", "day=11", "x/day=1"}, {}, matching="day=1").partitions == ("day=1",)


def test_a_table_without_partitions_is_taken_whole_or_not_at_all() -> None:
    """Its one partition has an empty name."""
    assert _cold({""}, {"": _touched(2 * HOUR)}).partitions == ("",)
    assert _cold({""}, {"": _touched(HOUR / 2)}).partitions == ()


PLAN = an_instant(
    time="00000050", action="clustering", stands_for=Service.CLUSTERING, state=State.REQUESTED, requested_at=NOW
)


IN_FLIGHT = an_instant(time="00000040", state=State.INFLIGHT)


def _writing(touches: dict[str, Touch], *touching: str) -> WriterActivity:
    """Return writers with one write in flight that says that it touches these partitions."""
    return WriterActivity(in_flight=(IN_FLIGHT,), touches=touches, touching={IN_FLIGHT.time: frozenset(touching)})


@pytest.mark.parametrize(
    ("writers", "reason"),
    [
        (_writing({}), None),
        (_writing({"b": _touched(-HOUR, instant="00000060")}, "c"), None),
        (_writing({"a": _touched(HOUR, instant="00000040")}), None),
        (_writing({"a": _touched(HOUR, instant="00000060")}), "00000060"),
        (_writing({"a": _touched(-HOUR, instant="00000040")}), "00000040"),
        (_writing({}, "b", "a"), "in flight"),
    ],
)
def test_a_plan_is_disturbed_by_what_touches_its_partitions_after_it(
    writers: WriterActivity, reason: str | None
) -> None:
    """A write that began before the plan and was completed after it counts, and so does one that is only in flight."""
    found = disturbed(frozenset("a"), PLAN, writers)

    assert (found is None) == (reason is None)
    assert reason is None or (found is not None and reason in found)
