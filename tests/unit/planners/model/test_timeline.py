"""How a run ended, by the timeline."""

from __future__ import annotations

from lakewarden.planners.model.instant import Fate, RunId, Service, Timeline
from tests.support.values import an_instant

RUN = RunId("r1")


def committed(time: str, *, partial: bool = False, run: RunId = RUN) -> Timeline:
    """Return a timeline on which a run has committed something."""
    return Timeline(
        instants=(an_instant(time=time, stands_for=Service.COMPACTION, author=run, partial=partial),),
        oldest_leave_first=False,
    )


def test_a_run_without_a_plan_is_found_by_what_it_committed() -> None:
    """The commit names the run."""
    assert committed("10").fate(run=RUN, instant=None) is Fate.COMPLETED
    assert committed("10", run=RunId("another")).fate(run=RUN, instant=None) is Fate.ABSENT


def test_a_part_of_what_a_run_commits_is_not_its_completion() -> None:
    """The run may have been killed before the last part."""
    assert committed("10", partial=True).fate(run=RUN, instant=None) is Fate.ABSENT


def test_where_instants_leave_in_any_order_a_missing_one_is_not_taken_for_archived() -> None:
    """The newer instant may be the oldest that is left."""
    assert committed("10").fate(run=RUN, instant="05") is Fate.ABSENT
