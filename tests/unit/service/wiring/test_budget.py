"""Deletion budgets: what is more than a table's budget waits for a person, who lets through exactly what was shown."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import DeletionBudget, Policy
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.model.run import RunState
from tests.support.daemon.daemon_harness import COMPACT, TRIPS, DaemonHarness, prepare

CLEAN = {Service.CLEAN: Policy(trigger=NumCommits(at_least=1))}
APPROVE = "approve it, which cannot be undone: `lakewarden approvals approve trips clean`"
NOTHING = DeletionBudget(files=0)


def blocked(
    folder: Path, *, versions: int = 1, budget: DeletionBudget = NOTHING, policies: dict[Service, Policy] = CLEAN
) -> DaemonHarness:
    """Return a daemon whose clean would delete so many versions, and has been stopped by the budget."""
    harness = DaemonHarness(folder, policies=policies, budget=budget)
    for _ in range(versions):
        prepare(harness.lake)
    harness.until(lambda: RunState.YIELDED in harness.states(Service.CLEAN))
    harness.turn()
    return harness


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
    harness = blocked(tmp_path, versions=2, budget=budget)

    assert harness.decision(Service.CLEAN) == Blocked(reason=reason, remedy=APPROVE)
    assert harness.pool.capacity().free == harness.slots
    assert harness.lake.file_versions == 3

    harness.write(1)
    harness.for_a_while(timedelta(minutes=5))
    assert len(harness.runs(Service.CLEAN)) == 1


def test_a_clean_within_the_budget_asks_nobody(tmp_path: Path) -> None:
    """A budget is the most that may be deleted, not less than that."""
    harness = DaemonHarness(tmp_path, policies=CLEAN, budget=DeletionBudget(files=2, percent=34))
    for _ in range(2):
        prepare(harness.lake)

    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED])

    assert harness.lake.file_versions == 1


def test_an_approval_lets_the_very_plan_through(tmp_path: Path) -> None:
    """The pending instant that was shown is completed; the next deletion asks again."""
    harness = blocked(tmp_path)
    (shown,) = harness.view().timeline.pending(Service.CLEAN)

    assert harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))
    harness.until(lambda: harness.states(Service.CLEAN)[-1] is RunState.SUCCEEDED)

    assert [i.time for i in harness.completed(Service.CLEAN)] == [shown.time]
    assert "clean approved by ada" in harness.recorded.lines
    prepare(harness.lake)
    harness.until(lambda: harness.states(Service.CLEAN)[-1] is RunState.YIELDED)
    assert harness.lake.file_versions == 2


def test_an_approval_where_nothing_waits_approves_nothing(tmp_path: Path) -> None:
    """Neither in advance nor twice."""
    harness = DaemonHarness(tmp_path, policies=CLEAN, budget=NOTHING)
    assert not harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))
    prepare(harness.lake)
    harness.until(lambda: RunState.YIELDED in harness.states(Service.CLEAN))
    harness.turn()

    assert harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))
    assert not harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="bob"))


def test_an_approval_holds_for_the_plan_that_was_shown_only(tmp_path: Path) -> None:
    """A plan that took its place, however alike, is shown anew."""
    harness = blocked(tmp_path)
    harness.answered(harness.status.commands.pause(None, reason="hold on"))
    harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))
    (shown,) = harness.view().timeline.pending(Service.CLEAN)
    harness.lake.withdraw(shown.time)
    harness.answered(harness.status.commands.resume(None))

    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.YIELDED] * 2)

    assert harness.lake.file_versions == 2


@pytest.mark.parametrize("approved", [True, False])
def test_questions_and_approvals_survive_a_restart(tmp_path: Path, approved: bool) -> None:
    """A person who was asked need not be asked again, and what was approved is done."""
    harness = blocked(tmp_path)
    if approved:
        harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))

    harness.compose()
    harness.for_a_while(timedelta(minutes=1))

    assert (harness.lake.file_versions == 1) is approved
    assert isinstance(harness.decision(Service.CLEAN), Blocked) is not approved


def test_an_approved_clean_that_was_cut_off_is_finished_without_asking_again(tmp_path: Path) -> None:
    """It was begun with a person's leave; half of it is worse than all of it."""
    harness = blocked(tmp_path)
    harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))
    harness.pool.kill(harness.until_executing(Step.COMMIT, Service.CLEAN).id)
    harness.held_pool.release()

    harness.until(lambda: harness.lake.file_versions == 1)


def test_a_larger_budget_ends_the_block_by_itself(tmp_path: Path) -> None:
    """What waits is held against the budget of now."""
    harness = blocked(tmp_path)

    harness.budget = DeletionBudget(files=1)
    harness.compose()

    harness.until(lambda: harness.lake.file_versions == 1)


def test_a_clean_that_waits_for_approval_holds_up_no_compaction(tmp_path: Path) -> None:
    """Approvals may take days; the table is compacted meanwhile."""
    harness = blocked(tmp_path, policies={**CLEAN, **COMPACT})
    harness.write(3)

    harness.until(lambda: harness.lake.log_files == 0)
    assert isinstance(harness.decision(Service.CLEAN), Blocked)


def test_resuming_a_table_withdraws_the_question(tmp_path: Path) -> None:
    """Whoever has changed what the clean keeps lets it look again: what is still too much is asked for again."""
    harness = blocked(tmp_path)
    asked = len(harness.runs(Service.CLEAN))

    harness.answered(harness.status.commands.resume(TRIPS))

    harness.until(lambda: len(harness.runs(Service.CLEAN)) > asked)
    harness.until(lambda: harness.states(Service.CLEAN)[-1] is RunState.YIELDED)
    assert harness.lake.file_versions == 2


# -- the first clean of a table, and one that keeps less

FIRST = DeletionBudget(files=100, asks_first=True)


def test_the_first_clean_of_a_table_waits_for_an_approval_of_its_numbers(tmp_path: Path) -> None:
    """It is within the budget, and waits all the same. The next clean asks nobody, also after a restart: the runs in
    the store say that the table was cleaned.
    """
    harness = blocked(tmp_path, budget=FIRST)
    assert harness.decision(Service.CLEAN) == Blocked(
        reason="would delete 1 file in the first clean of the table", remedy=APPROVE
    )
    assert harness.lake.file_versions == 2
    assert harness.answered(harness.status.commands.approve(TRIPS, Service.CLEAN, by="ada"))
    harness.until(lambda: harness.states(Service.CLEAN)[-1] is RunState.SUCCEEDED)
    prepare(harness.lake)
    harness.until(lambda: len(harness.completed(Service.CLEAN)) == 2)
    harness.compose()
    prepare(harness.lake)
    harness.until(lambda: len(harness.completed(Service.CLEAN)) == 3)


def test_the_setting_that_allows_a_first_clean_ends_the_wait(tmp_path: Path) -> None:
    """An operator who allows first cleans need not approve each one that already waits."""
    harness = blocked(tmp_path, budget=FIRST)
    harness.budget = DeletionBudget(files=100)
    harness.compose()
    harness.until(lambda: harness.states(Service.CLEAN)[-1] is RunState.SUCCEEDED)


# A deletion that was begun is among its run's figures, however the run ends.


def deleting(folder: Path) -> DaemonHarness:
    """Return a daemon whose clean has leave to delete two files, and is at it."""
    harness = DaemonHarness(folder, policies=CLEAN)
    for _ in range(2):
        prepare(harness.lake)
    harness.until_executing(Step.COMMIT, Service.CLEAN)
    return harness


def test_a_deletion_that_fails_half_way_tells_how_much_it_may_have_deleted(tmp_path: Path) -> None:
    """Its worker was killed, and nobody can count what has gone: what was going to go is in the row."""
    harness = deleting(tmp_path)
    [run] = harness.runs(Service.CLEAN)
    assert (run.state, run.figures) == (RunState.COMMITTING, {"files_to_delete": 2})
    harness.pool.kill(run.id)
    harness.turn()

    [ended] = harness.runs(Service.CLEAN)
    assert (ended.state, ended.figures) == (RunState.FAILED, {"files_to_delete": 2})


def test_a_deletion_whose_daemon_was_killed_tells_it_too(tmp_path: Path) -> None:
    """Its row has it from before it may begin, and whoever settles it leaves it there."""
    harness = deleting(tmp_path)
    [run] = harness.runs(Service.CLEAN)
    harness.pool.crash()
    harness.compose()
    harness.until(lambda: harness.states(Service.CLEAN)[0] is not RunState.COMMITTING)
    harness.until(harness.at_rest)

    ended = next(one for one in harness.runs(Service.CLEAN) if one.id == run.id)
    assert ended.state is not RunState.SUCCEEDED
    assert ended.figures == {"files_to_delete": 2}


def test_a_deletion_that_succeeds_tells_both(tmp_path: Path) -> None:
    """What was planned beside what was done."""
    harness = DaemonHarness(tmp_path, policies=CLEAN)
    for _ in range(2):
        prepare(harness.lake)
    harness.until(lambda: harness.states(Service.CLEAN) == [RunState.SUCCEEDED])

    [run] = harness.runs(Service.CLEAN)
    assert run.figures["files_to_delete"] == 2
    assert "commit_seconds" in run.figures
