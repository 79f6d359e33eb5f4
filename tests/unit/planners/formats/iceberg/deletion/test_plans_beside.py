"""The plan of a deletion lies beside the table. The timeline shows it, and half a file is never taken for a plan."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.iceberg.deletion.plans_beside import (
    REMEMBERED,
    DeletionPlan,
    PlanBeside,
    content_of,
    file_of,
    instant_of,
    instants,
    plan_beside,
)
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Fate, RunId, Service, State, Timeline
from lakewarden.planners.storage import LocalStorage
from tests.support.values import NOW

RUN = RunId("run-7")
PENDING = DeletionPlan(
    instant=instant_of(Service.CLEAN, RUN, NOW),
    run=RUN,
    requested_at=NOW,
    state=State.REQUESTED,
    snapshots=(2**62, 5),
    files=9,
    data_files=4,
)
BESIDE = PlanBeside(service=Service.CLEAN, table="u", pending=PENDING)


def written(
    folder: Path, beside: PlanBeside, *, first: bytes | None = None, last: bytes | None = None
) -> PlanBeside | None:
    """Write a plan as the worker does, or other content in the first and the last file. Return the plan that is
    read.
    """
    (folder / "metadata").mkdir(exist_ok=True)
    Path(file_of(Service.CLEAN, str(folder), beside=True)).write_bytes(content_of(beside) if first is None else first)
    Path(file_of(Service.CLEAN, str(folder))).write_bytes(content_of(beside) if last is None else last)
    return plan_beside(Service.CLEAN, str(folder), LocalStorage(), uuid="u")


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """The plan is complete, with ids larger than floating point holds."""
    assert written(tmp_path, BESIDE.with_completed(NOW)) == BESIDE.with_completed(NOW)
    assert written(tmp_path, BESIDE) == BESIDE


@pytest.mark.parametrize("length", [0, 1, 100, len(content_of(BESIDE)) - 1])
def test_a_writer_that_was_killed_half_way_has_changed_or_not_changed_the_plan(tmp_path: Path, length: int) -> None:
    """If the writer was killed at the first file, the plan is the old one. If it was killed at the second, the plan is
    the new one.
    """
    half = content_of(BESIDE)[:length]
    before = PlanBeside(service=Service.CLEAN, table="u")
    assert written(tmp_path, BESIDE, first=half, last=content_of(before)) == before
    assert written(tmp_path, BESIDE, last=half) == BESIDE


def test_what_is_damaged_in_both_places_is_a_fault_and_no_guess(tmp_path: Path) -> None:
    """The plan may be half executed. If it counted as no plan, its files would never be deleted."""
    with pytest.raises(CorruptMetadataError):
        written(tmp_path, BESIDE, first=b"{", last=b"{")
    Path(file_of(Service.CLEAN, str(tmp_path), beside=True)).unlink()
    with pytest.raises(CorruptMetadataError, match="delete it, and run orphans"):
        plan_beside(Service.CLEAN, str(tmp_path), LocalStorage(), uuid="u")


def test_nothing_beside_the_table_is_nothing_pending(tmp_path: Path) -> None:
    """This also holds if another tool has deleted the file as an orphan."""
    assert plan_beside(Service.CLEAN, str(tmp_path), LocalStorage(), uuid="u") is None


def test_the_plan_of_a_table_that_was_dropped_is_none(tmp_path: Path) -> None:
    """A table that was created again in the same place has other snapshots."""
    assert written(tmp_path, dataclasses.replace(BESIDE, table="earlier")) is None


def test_a_plan_of_a_later_version_is_left_to_it(tmp_path: Path) -> None:
    """Its meaning is not known."""
    later = content_of(BESIDE).replace(b'"version": 1', b'"version": 2')
    with pytest.raises(PermanentError, match="another version, 2"):
        written(tmp_path, BESIDE, last=later)


def test_the_timeline_tells_the_fate_of_a_run_by_its_plan() -> None:
    """The run is pending until its plan is executed, and completed after that."""
    pending = Timeline(instants=instants([BESIDE, None]), oldest_leave_first=False)
    assert pending.fate(run=RUN, instant=None) is Fate.PENDING
    assert pending.pending(Service.CLEAN)[0].state is State.REQUESTED
    done = Timeline(instants=instants([BESIDE.with_completed(NOW)]), oldest_leave_first=False)
    assert done.fate(run=RUN, instant=PENDING.instant) is Fate.COMPLETED
    assert done.pending(Service.CLEAN) == ()


def test_only_the_last_completed_ones_are_remembered() -> None:
    """The file stays small, however old the table is."""
    beside = BESIDE
    for number in range(30):
        again = dataclasses.replace(PENDING, instant=f"{number:013d}-clean", run=RunId(f"run-{number}"))
        beside = dataclasses.replace(beside, pending=again).with_completed(NOW + timedelta(minutes=number))
    shown = instants([beside])
    assert len(shown) == REMEMBERED
    assert shown[-1].author == "run-29"
