"""Deletion budgets: what is more than a table's budget waits for a person, who lets through exactly what was shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.executors.contract import Step
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import DeletionBudget, Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.road import COMPACT, TRIPS, Road, prepare

CLEAN = {Service.CLEAN: Policy(trigger=NumCommits(at_least=1))}
APPROVE = "approve it: POST /v1/tables/trips/services/clean/approval"
NOTHING = DeletionBudget(files=0)


def blocked(
    folder: Path, *, versions: int = 1, budget: DeletionBudget = NOTHING, policies: dict[Service, Policy] = CLEAN
) -> Road:
    """Return a road whose clean would delete so many versions, and has been stopped by the budget."""
    road = Road(folder, policies=policies, budget=budget)
    for _ in range(versions):
        prepare(road.lake)
    road.until(lambda: RunState.CANCELLED in road.states(Service.CLEAN))
    road.turn()
    return road


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (NOTHING, "would delete 2 files, more than the budget of 0"),
        (DeletionBudget(files=1, percent=99), "would delete 2 files, more than the budget of 1"),
        (DeletionBudget(percent=20), "would delete 2 of 6 files, more than the budget of 20 %"),
    ],
)
def test_a_clean_beyond_the_budget_steps_back_and_is_blocked(
    tmp_path: Path, budget: DeletionBudget, reason: str
) -> None:
    """Nothing is deleted, no slot is held, and people read how much it would be and what to do."""
    road = blocked(tmp_path, versions=2, budget=budget)

    assert road.decision(Service.CLEAN) == Blocked(reason=reason, remedy=APPROVE)
    assert road.pool.room().free == road.slots
    assert road.lake.file_versions == 3

    road.write(1)
    road.for_a_while(timedelta(minutes=5))
    assert len(road.runs(Service.CLEAN)) == 1


def test_a_clean_within_the_budget_asks_nobody(tmp_path: Path) -> None:
    """A budget is the most that may be deleted, not less than that."""
    road = Road(tmp_path, policies=CLEAN, budget=DeletionBudget(files=2, percent=34))
    for _ in range(2):
        prepare(road.lake)

    road.until(lambda: road.states(Service.CLEAN) == [RunState.SUCCEEDED])

    assert road.lake.file_versions == 1


def test_an_approval_lets_the_very_plan_through(tmp_path: Path) -> None:
    """The pending instant that was shown is completed; the next deletion asks again."""
    road = blocked(tmp_path)
    (shown,) = road.view().timeline.pending(Service.CLEAN)

    assert road.answered(road.status.approve(TRIPS, Service.CLEAN, by="ada"))
    road.until(lambda: road.states(Service.CLEAN)[-1] is RunState.SUCCEEDED)

    assert [i.time for i in road.completed(Service.CLEAN)] == [shown.time]
    assert "clean approved by ada" in road.diary.lines
    prepare(road.lake)
    road.until(lambda: road.states(Service.CLEAN)[-1] is RunState.CANCELLED)
    assert road.lake.file_versions == 2


def test_an_approval_where_nothing_waits_approves_nothing(tmp_path: Path) -> None:
    """Neither in advance nor twice."""
    road = Road(tmp_path, policies=CLEAN, budget=NOTHING)
    assert not road.answered(road.status.approve(TRIPS, Service.CLEAN, by="ada"))
    prepare(road.lake)
    road.until(lambda: RunState.CANCELLED in road.states(Service.CLEAN))
    road.turn()

    assert road.answered(road.status.approve(TRIPS, Service.CLEAN, by="ada"))
    assert not road.answered(road.status.approve(TRIPS, Service.CLEAN, by="bob"))


def test_an_approval_holds_for_the_plan_that_was_shown_only(tmp_path: Path) -> None:
    """A plan that took its place, however alike, is shown anew."""
    road = blocked(tmp_path)
    road.answered(road.status.pause(None, reason="hold on"))
    road.answered(road.status.approve(TRIPS, Service.CLEAN, by="ada"))
    (shown,) = road.view().timeline.pending(Service.CLEAN)
    road.lake.withdraw(shown.time)
    road.answered(road.status.resume(None))

    road.until(lambda: road.states(Service.CLEAN) == [RunState.CANCELLED] * 2)

    assert road.lake.file_versions == 2


@pytest.mark.parametrize("approved", [True, False])
def test_questions_and_approvals_survive_a_restart(tmp_path: Path, approved: bool) -> None:
    """A person who was asked need not be asked again, and what was approved is done."""
    road = blocked(tmp_path)
    if approved:
        road.answered(road.status.approve(TRIPS, Service.CLEAN, by="ada"))

    road.compose()
    road.for_a_while(timedelta(minutes=1))

    assert (road.lake.file_versions == 1) is approved
    assert isinstance(road.decision(Service.CLEAN), Blocked) is not approved


def test_an_approved_clean_that_was_cut_off_is_finished_without_asking_again(tmp_path: Path) -> None:
    """It was begun with a person's leave; half of it is worse than all of it."""
    road = blocked(tmp_path)
    road.answered(road.status.approve(TRIPS, Service.CLEAN, by="ada"))
    road.pool.kill(road.until_executing(Step.COMMIT, Service.CLEAN).id)
    road.held_pool.release()

    road.until(lambda: road.lake.file_versions == 1)


def test_a_larger_budget_ends_the_block_by_itself(tmp_path: Path) -> None:
    """What waits is held against the budget of now."""
    road = blocked(tmp_path)

    road.budget = DeletionBudget(files=1)
    road.compose()

    road.until(lambda: road.lake.file_versions == 1)


def test_a_clean_that_waits_for_approval_holds_up_no_compaction(tmp_path: Path) -> None:
    """Approvals may take days; the table is compacted meanwhile."""
    road = blocked(tmp_path, policies={**CLEAN, **COMPACT})
    road.write(3)

    road.until(lambda: road.lake.log_files == 0)
    assert isinstance(road.decision(Service.CLEAN), Blocked)


def test_resuming_a_table_withdraws_the_question(tmp_path: Path) -> None:
    """Whoever has changed what the clean keeps lets it look again: what is still too much is asked for again."""
    road = blocked(tmp_path)
    asked = len(road.runs(Service.CLEAN))

    road.answered(road.status.resume(TRIPS))

    road.until(lambda: len(road.runs(Service.CLEAN)) > asked)
    road.until(lambda: road.states(Service.CLEAN)[-1] is RunState.CANCELLED)
    assert road.lake.file_versions == 2
