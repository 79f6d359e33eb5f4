"""For how long we were seen to hold a table's lock."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.model.instant import Service
from lakewarden.service.model.run import Run
from lakewarden.service.rules.permits import worst_hold
from tests.support.values import a_run


def _run(service: Service, **figures: float) -> Run:
    return a_run(service=service, figures=figures)


def test_the_longest_planning_or_committing_bounds_the_hold() -> None:
    """Executing holds no lock, however long it takes."""
    runs = [
        _run(Service.COMPACTION, plan_seconds=1, execute_seconds=600, commit_seconds=2),
        _run(Service.COMPACTION, plan_seconds=4, execute_seconds=1, commit_seconds=3),
    ]

    assert worst_hold(runs) == timedelta(seconds=4)


def test_a_step_that_executes_and_commits_in_one_says_nothing() -> None:
    """A clustering of an hour does not mean that anybody waited for an hour."""
    assert worst_hold([_run(Service.CLUSTERING, plan_seconds=1, commit_seconds=3600)]) == timedelta(seconds=1)


def test_without_a_measured_run_nothing_is_known() -> None:
    """Runs of an older Lakewarden have no such figures."""
    assert worst_hold([_run(Service.COMPACTION, file_groups=3)]) is None
