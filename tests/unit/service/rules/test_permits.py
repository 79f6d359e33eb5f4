"""Permits: the leave a run asks for before each step, and whom each condition protects."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.executors.contract import Granted, Permit, Plan, Refused, Wait
from lakewarden.planners.formats.hudi.options.locks import LEAST_RETRY_TIME
from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service, State, Step
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.planners.model.view import Blocker, TableIdentity, TableView
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.permits import Limits, PermitContext, PermitRequest, excess, judge, unapproved
from tests.support.values import NOW, a_run, a_view, an_instant

SECOND, DAY = timedelta(seconds=1), timedelta(days=1)
LIMITS = Limits()
COMPACTING = a_run("c1", state=RunState.RUNNING, epoch=1, instant="00000020")
CLUSTERING = a_run("g1", service=Service.CLUSTERING, state=RunState.RUNNING, epoch=1, instant="00000040")
ARCHIVING = a_run("a1", service=Service.ARCHIVE, state=RunState.RUNNING, epoch=1)
CLEANING = a_run("k1", service=Service.CLEAN, state=RunState.RUNNING, epoch=1, instant="00000030")
PLANS = (
    an_instant(time="00000020", stands_for=Service.COMPACTION, state=State.INFLIGHT),
    an_instant(time="00000030", stands_for=Service.CLEAN, state=State.REQUESTED),
    an_instant(time="00000040", stands_for=Service.CLUSTERING, state=State.REQUESTED),
)
VIEW = a_view(*PLANS)
WRITE = an_instant(
    time="00000015", stands_for=InstantKind.WRITE, state=State.INFLIGHT, guarded_until=NOW + timedelta(minutes=2)
)


def ask(run: Run, step: Step, *, waited: timedelta = timedelta(0), **around: Any) -> Permit:
    """Judge a question where nothing stands in the way, except for what `around` says."""
    quiet: dict[str, Any] = {
        "view": VIEW,
        "endangered": (),
        "neighbours": (),
        "lease_held": True,
        "held": None,
        "now": NOW,
        "limits": LIMITS,
    }
    plan = None if step is Step.PLAN or run.instant is None else Plan(instant=run.instant)
    return judge(PermitRequest(run=run, step=step, plan=plan, waited=waited), PermitContext(**{**quiet, **around}))


def unplanned(run: Run) -> Run:
    """Return the run as it is before it has planned."""
    return replace(run, instant=None)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("run", [COMPACTING, CLEANING, unplanned(COMPACTING)], ids=["compaction", "clean", "new"])
def test_where_nothing_stands_in_the_way_every_step_is_granted(run: Run, step: Step) -> None:
    """A quiet table keeps nobody waiting."""
    assert isinstance(ask(run, step), Granted)


def test_a_plan_that_somebody_else_has_begun_is_not_executed() -> None:
    """A heartbeat that nobody dead has left guards it, and other steps mind it no more."""
    assert ask(COMPACTING, Step.EXECUTE, guarded=True) == Refused(
        reason=f"instant {COMPACTING.instant} is guarded by the heartbeat of its executor"
    )
    assert isinstance(ask(COMPACTING, Step.COMMIT, guarded=True), Granted)


# -- what refuses every step

REFUSALS: dict[str, dict[str, Any]] = {
    "a newer owner": {"lease_held": False},
    "a second name of the folder": {"shared": "its folder is also registered as b"},
    "a pause or a drain that is over": {"held": "the drain deadline has passed"},
    "another table at the same place": {"view": replace(VIEW, identity=TableIdentity(location="/x", created="again"))},
    "a blocker": {"view": replace(VIEW, blockers=(Blocker(reason="no lock", remedy="name it"),))},
}


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("why", REFUSALS)
@pytest.mark.parametrize("run", [COMPACTING, CLEANING], ids=["compaction", "clean"])
def test_what_forbids_any_step_is_refused_at_once(run: Run, why: str, step: Step) -> None:
    """Waiting could not help, so the run steps back."""
    permit = ask(run, step, **REFUSALS[why])

    assert isinstance(permit, Refused)
    assert permit.reason


def test_a_blocker_of_another_service_refuses_nothing() -> None:
    """What holds cleans back does not hold compactions back."""
    blocker = Blocker(reason="not LAZY", remedy="set it", services=frozenset({Service.CLEAN}))
    view = replace(VIEW, blockers=(blocker,))

    assert isinstance(ask(COMPACTING, Step.COMMIT, view=view), Granted)
    assert ask(CLEANING, Step.COMMIT, view=view) == Refused(reason="not LAZY")


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("fate", ["absent", "completed"])
def test_only_an_instant_that_is_pending_is_carried_on(step: Step, fate: str) -> None:
    """What the timeline shows as completed is never run again, and what is gone is not ours to complete."""
    others = {"absent": (), "completed": (replace(PLANS[0], state=State.COMPLETED),)}[fate]

    permit = ask(COMPACTING, step, view=a_view(*others))

    assert permit == Refused(reason=f"instant 00000020 is {fate} on the timeline")


@pytest.mark.parametrize("step", Step)
def test_metadata_that_cannot_be_read_whole_is_waited_for_but_not_for_ever(step: Step) -> None:
    """A file that is being written looks broken for a moment; then the run yields, and nothing was guessed."""
    faulty = a_view(faults=("00000020.commit is cut off",))  # the instant itself cannot be seen

    assert isinstance(ask(COMPACTING, step, view=faulty), Wait)
    last = LIMITS.max_wait_to_commit - SECOND
    assert isinstance(ask(COMPACTING, step, view=faulty, waited=last), Wait)
    assert isinstance(ask(COMPACTING, step, view=faulty, waited=LIMITS.max_wait_to_commit), Refused)


# -- planning between writes


def test_a_plan_waits_for_a_moment_without_writes_and_then_is_made_beside_one() -> None:
    """A writer that never pauses must not starve the service for ever."""
    run = unplanned(COMPACTING)

    assert ask(run, Step.PLAN, endangered=(WRITE,)) == Wait(reason="write 00000015 is in flight")
    last = LIMITS.max_wait_for_writers - SECOND
    assert isinstance(ask(run, Step.PLAN, endangered=(WRITE,), waited=last), Wait)
    assert isinstance(ask(run, Step.PLAN, endangered=(WRITE,), waited=LIMITS.max_wait_for_writers), Granted)


def test_taking_up_a_plan_needs_no_moment_without_writes() -> None:
    """What is on the timeline already cannot hurt a write by being planned."""
    assert isinstance(ask(COMPACTING, Step.PLAN, endangered=(WRITE,)), Granted)


def test_a_plan_that_would_hurt_a_write_by_its_mere_presence_is_not_executed() -> None:
    """The run yields at once, so that the plan can be withdrawn."""
    permit = ask(COMPACTING, Step.EXECUTE, endangered=(WRITE,))

    assert isinstance(permit, Refused)
    assert permit.reason.startswith("write 00000015 began before the plan and would fail by it: the plan is withdrawn")


@pytest.mark.parametrize("step", Step)
def test_dead_writes_are_not_waited_for(step: Step) -> None:
    """A write whose heartbeat has run out cannot be failed by us any more."""
    dead = replace(WRITE, guarded_until=NOW)

    assert isinstance(
        ask(unplanned(COMPACTING) if step is Step.PLAN else COMPACTING, step, endangered=(dead,)), Granted
    )


@pytest.mark.parametrize("step", [Step.PLAN, Step.COMMIT])
def test_a_write_without_a_heartbeat_is_taken_for_alive(step: Step) -> None:
    """Nobody can prove that it is dead."""
    silent = replace(WRITE, guarded_until=None)

    run = unplanned(COMPACTING) if step is Step.PLAN else COMPACTING
    assert isinstance(ask(run, step, endangered=(silent,)), Wait)


# -- the commit


def test_a_commit_waits_for_the_writes_it_would_fail_and_then_yields() -> None:
    """Writers win: after the wait is over the run steps back, and its plan stays pending."""
    assert ask(COMPACTING, Step.COMMIT, endangered=(WRITE,)) == Wait(
        reason="write 00000015 is in flight and would fail by this commit"
    )
    last = LIMITS.max_wait_to_commit - SECOND
    assert isinstance(ask(COMPACTING, Step.COMMIT, endangered=(WRITE,), waited=last), Wait)
    assert isinstance(ask(COMPACTING, Step.COMMIT, endangered=(WRITE,), waited=LIMITS.max_wait_to_commit), Refused)


def test_a_commit_waits_for_what_its_format_awaits_and_then_yields() -> None:
    """As for writes in flight: bounded, with the format's own words."""
    awaited = "no write begun after plan 00000010 was completed yet"

    assert ask(COMPACTING, Step.COMMIT, awaited=awaited) == Wait(reason=awaited)
    assert isinstance(ask(COMPACTING, Step.COMMIT, awaited=awaited, waited=LIMITS.max_wait_to_commit), Refused)


def test_nothing_is_executed_that_could_not_be_committed() -> None:
    """What is rewritten in vain is rewritten again: the run waits before, and steps back before."""
    awaited = "write 00000015 began before the plan and would fail by its commit"

    assert ask(COMPACTING, Step.EXECUTE, awaited=awaited) == Wait(reason=awaited)
    refused = ask(COMPACTING, Step.EXECUTE, awaited=awaited, waited=LIMITS.max_wait_to_commit)
    assert refused == Refused(reason=f"{awaited}: not after 10m either")


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.COMMITTING])
def test_a_commit_waits_for_a_clean_that_a_worker_has_taken_up(state: RunState) -> None:
    """Whatever the clean is doing; but not for ever."""
    cleaning = replace(CLEANING, state=state)

    assert ask(COMPACTING, Step.COMMIT, neighbours=(cleaning,)) == Wait(
        reason="clean k1 is executing, and the commit waits for it"
    )
    permit = ask(COMPACTING, Step.COMMIT, neighbours=(cleaning,), waited=LIMITS.max_wait_to_commit)
    assert isinstance(permit, Refused)


@pytest.mark.parametrize("step", [Step.PLAN, Step.EXECUTE])
def test_a_clean_runs_beside_the_planning_and_the_execution(step: Step) -> None:
    """Only the commit waits for it."""
    assert isinstance(ask(COMPACTING, step, neighbours=(replace(CLEANING, state=RunState.COMMITTING),)), Granted)


def test_a_joined_deletion_waits_for_a_granted_commit_and_no_longer_than_that() -> None:
    """A compaction that merely executes, or waits for its own permit, does not hold a clean back."""
    committing = replace(COMPACTING, state=RunState.COMMITTING)

    assert ask(CLEANING, Step.COMMIT, neighbours=(committing,)) == Wait(reason="compaction c1 is committing")
    assert isinstance(ask(CLEANING, Step.COMMIT, neighbours=(COMPACTING,)), Granted)
    waited = LIMITS.max_wait_to_commit
    assert isinstance(ask(CLEANING, Step.COMMIT, neighbours=(committing,), waited=waited), Refused)


def test_only_a_joined_step_has_to_end_before_its_permit_expires() -> None:
    """Past its expiry the worker's JVM is killed, so that no deletion is under way that we do not know of."""
    assert ask(CLEANING, Step.COMMIT) == Granted(
        reason="the instant is ours to complete, no clean is executing, no write would fail",
        expires=LIMITS.joined_step,
        at_most=LIMITS.longest_step,
    )
    for run, step in itertools.product([COMPACTING, CLEANING, CLUSTERING, ARCHIVING], Step):
        permit = ask(run, step)
        assert isinstance(permit, Granted)
        assert (permit.expires is not None) is (run is not COMPACTING and step is Step.COMMIT)


def test_a_step_that_holds_the_writers_lock_ends_before_they_give_the_lock_up() -> None:
    """However well it goes on: its JVM is killed, and the writers that wait for the lock get it."""
    timeouts = LIMITS.timeouts(Service.METADATA_REBUILD, Plan(instant=None))
    assert timeouts.without_progress == timeouts.in_all < LEAST_RETRY_TIME


@given(
    size=st.integers(0, 2**50),
    groups=st.none() | st.integers(0, 10**6),
    service=st.sampled_from([Service.COMPACTION, Service.CLUSTERING]),
)
def test_a_larger_plan_may_take_longer_and_stand_still_for_its_largest_file_groups_alone(
    size: int, groups: int | None, service: Service
) -> None:
    """However large it is: the whole has time for all its bytes, each silence for a file group's, and both an end."""
    still, whole = (
        getattr(LIMITS.timeouts(service, Plan(instant="1", bytes=size, file_groups=groups)), part)
        for part in ("without_progress", "in_all")
    )
    least = LIMITS.joined_step if service is Service.CLUSTERING else LIMITS.step
    assert least <= still <= least + timedelta(seconds=size // LIMITS.slowest)
    assert still <= whole
    assert whole > LIMITS.longest_step + timedelta(seconds=size // LIMITS.slowest) - timedelta(minutes=1)
    if groups is not None and groups > 4:
        assert still <= least + timedelta(seconds=4 * size // groups // LIMITS.slowest)


# -- a service whose pending plan makes writers fail

BREAKS: dict[str, dict[str, Any]] = {
    "metadata that cannot be read": {"view": replace(VIEW, faults=("00000015.commit is cut off",))},
    "a write": {"endangered": (WRITE,)},
    "a clean": {"neighbours": (replace(CLEANING, state=RunState.COMMITTING),)},
    "a clean that was left unfinished": {"unfinished": (PLANS[1],)},
}


@pytest.mark.parametrize("why", BREAKS)
@pytest.mark.parametrize("step", [Step.EXECUTE, Step.COMMIT])
def test_a_clustering_never_waits_with_its_plan(step: Step, why: str) -> None:
    """Where a compaction would wait it is refused, and its program withdraws the plan."""
    assert not isinstance(ask(CLUSTERING, step, **BREAKS[why]), Wait)
    assert isinstance(ask(CLUSTERING, Step.COMMIT, **BREAKS[why]), Refused)
    assert isinstance(ask(COMPACTING, Step.COMMIT, **BREAKS[why]), Wait)


def test_a_clustering_waits_before_it_has_planned_and_then_gives_up() -> None:
    """As long as there is no plan nobody is hurt; beside a writer it is never planned."""
    run = unplanned(CLUSTERING)

    assert isinstance(ask(run, Step.PLAN, endangered=(WRITE,)), Wait)
    assert ask(run, Step.PLAN, endangered=(WRITE,), waited=LIMITS.max_wait_for_writers) == Refused(
        reason="no moment without a write in flight within 5m"
    )


# -- what goes first

LOG_COMPACTING = a_run("l1", service=Service.LOG_COMPACTION, state=RunState.RUNNING, epoch=1, instant="00000050")
DUE = a_run("c9")


@pytest.mark.parametrize("step", Step)
def test_a_clustering_lets_a_compaction_go_first_before_it_has_rewritten_anything(step: Step) -> None:
    """It rewrites in its last step: until then it costs nothing to come again."""
    assert ask(CLUSTERING, step, goes_first=DUE) == Refused(reason="compaction c9 is due and goes first")
    assert isinstance(ask(CLUSTERING, step), Granted)


def test_a_log_compaction_commits_what_it_has_rewritten_or_gives_it_up_at_once() -> None:
    """What it would wait for, a compaction would wait for with it."""
    plan = an_instant(time="00000050", stands_for=Service.LOG_COMPACTION, state=State.INFLIGHT)
    around: dict[str, Any] = {"view": a_view(plan), "goes_first": DUE}

    assert isinstance(ask(LOG_COMPACTING, Step.COMMIT, **around), Granted)
    refused = Refused(reason="compaction c9 is due and goes first")
    assert ask(LOG_COMPACTING, Step.EXECUTE, **around) == refused
    assert ask(LOG_COMPACTING, Step.COMMIT, awaited="no write yet", **around) == refused
    assert isinstance(ask(LOG_COMPACTING, Step.COMMIT, view=a_view(plan), awaited="no write yet"), Wait)


# -- cleans that were left half-way, deletions beyond the budget, writers' barriers


def test_nothing_is_planned_or_committed_before_a_clean_that_was_left_half_way_is_finished() -> None:
    """Else a commit would overtake the clean that it should have waited for."""
    unfinished: dict[str, Any] = {"unfinished": (PLANS[1],)}
    reason = "clean 00000030 was left unfinished, and is finished first"

    assert ask(unplanned(COMPACTING), Step.PLAN, **unfinished) == Refused(reason=reason)
    assert ask(COMPACTING, Step.PLAN, **unfinished) == Refused(reason=reason)
    assert ask(COMPACTING, Step.COMMIT, **unfinished) == Wait(reason=reason)
    assert isinstance(ask(COMPACTING, Step.COMMIT, waited=LIMITS.max_wait_to_commit, **unfinished), Refused)
    for step in Step:
        assert isinstance(ask(CLEANING, step, **unfinished), Granted)


@pytest.mark.parametrize("waited", [timedelta(0), LIMITS.max_wait_to_commit])
def test_a_deletion_that_nobody_has_approved_steps_back_at_once(waited: timedelta) -> None:
    """A person may take days: no question is held open for that, and no slot."""
    too_much = "would delete 24,000 files, more than the budget of 20,000"

    assert ask(CLEANING, Step.COMMIT, unapproved=too_much, waited=waited) == Refused(reason=too_much)


def test_a_writers_barrier_holds_cleans_back_at_their_commit_and_nobody_else() -> None:
    """Planning deletes nothing, and other services have a barrier of their own: the table's lock."""
    assert ask(CLEANING, Step.COMMIT, behind_barrier=True) == Wait(reason="a writer's barrier holds cleans back")
    assert isinstance(ask(CLEANING, Step.COMMIT, behind_barrier=True, waited=LIMITS.max_wait_to_commit), Refused)
    for run, step in itertools.product([COMPACTING, CLUSTERING, CLEANING], [Step.PLAN, Step.EXECUTE]):
        assert isinstance(ask(run, step, behind_barrier=True), Granted)
    assert isinstance(ask(COMPACTING, Step.COMMIT, behind_barrier=True), Granted)


ORPHANS = a_run("o1", service=Service.ORPHANS, state=RunState.RUNNING, epoch=1)


@pytest.mark.parametrize("step", [Step.PLAN, Step.COMMIT])
def test_orphans_are_looked_for_and_deleted_beside_a_compaction_that_is_young_enough(step: Step) -> None:
    """No file of a compaction is older than the compaction, and no orphan is younger than a day. One that has been at
    work for longer is waited for, and not for ever.
    """
    young = replace(COMPACTING, started_at=NOW - timedelta(hours=11))
    old = replace(COMPACTING, started_at=NOW - timedelta(hours=13))

    assert isinstance(ask(ORPHANS, step, neighbours=(young,)), Granted)
    waits = ask(ORPHANS, step, neighbours=(young, replace(old, id=RunId("c2"))))
    assert isinstance(waits, Wait)
    assert waits.reason.startswith("compaction c2 has been running for more than 12h")
    assert isinstance(ask(ORPHANS, step, neighbours=(old,), waited=LIMITS.max_wait_to_commit), Refused)
    assert isinstance(ask(COMPACTING, step, neighbours=(replace(ORPHANS, started_at=NOW - DAY),)), Granted)


def test_a_compaction_that_commits_is_waited_for_by_orphans_and_waits_for_none() -> None:
    """What orphans may delete it does not know, and the other way round."""
    committing = replace(COMPACTING, state=RunState.COMMITTING, started_at=NOW)

    assert ask(ORPHANS, Step.COMMIT, neighbours=(committing,)) == Wait(reason="compaction c1 is committing")
    deleting = replace(ORPHANS, state=RunState.COMMITTING, started_at=NOW)
    assert isinstance(ask(COMPACTING, Step.COMMIT, neighbours=(deleting,)), Granted)


# -- a clean and a compaction beside each other


@dataclass(frozen=True, kw_only=True)
class Pair:
    """How far a compaction and a clean of one table have come: the question each stands at, or that it commits."""

    compaction: Step | None = Step.PLAN
    clean: Step | None = None
    cleaned: bool = False
    committing: frozenset[Service] = frozenset()

    def runs(self) -> dict[Service, Run]:
        """Return the runs that a worker is carrying out."""
        at = {Service.COMPACTION: self.compaction, Service.CLEAN: self.clean}
        return {
            service: replace(run, state=RunState.COMMITTING if service in self.committing else RunState.RUNNING)
            for service, run in ((Service.COMPACTION, COMPACTING), (Service.CLEAN, CLEANING))
            if at[service] is not None
        }

    def permit(self, service: Service) -> Permit:
        """Judge the question at which one of the two stands."""
        runs = self.runs()
        step = self.compaction if service is Service.COMPACTION else self.clean
        assert step is not None
        return ask(runs[service], step, neighbours=[run for other, run in runs.items() if other is not service])

    def ended(self, service: Service) -> Pair:
        """Return the pair after one of the two has ended."""
        still = self.committing - {service}
        if service is Service.COMPACTION:
            return replace(self, compaction=None, committing=still)
        return replace(self, clean=None, cleaned=True, committing=still)

    def took(self, service: Service) -> Pair:
        """Return the pair after one of the two has got its permit."""
        step = self.compaction if service is Service.COMPACTION else self.clean
        if step is Step.COMMIT:
            return replace(self, committing=self.committing | {service})
        after = {Step.PLAN: Step.EXECUTE, Step.EXECUTE: Step.COMMIT}[step or Step.PLAN]
        return replace(self, compaction=after) if service is Service.COMPACTION else replace(self, clean=after)

    def moves(self) -> Iterator[Pair]:
        """Yield everything that can happen next. A clean starts only before the compaction wants to commit."""
        if self.clean is None and not self.cleaned and self.compaction is not Step.COMMIT:
            yield replace(self, clean=Step.PLAN)
        for service in self.runs():
            if service in self.committing or isinstance(self.permit(service), Refused):
                yield self.ended(service)
            elif isinstance(self.permit(service), Granted):
                yield self.took(service)


def reachable() -> set[Pair]:
    """Return every state that the two can come to."""
    found, unseen = {Pair()}, [Pair()]
    while unseen:
        for after in unseen.pop().moves():
            if after not in found:
                found.add(after)
                unseen.append(after)
    return found


def test_a_clean_and_a_compaction_never_wait_for_each_other() -> None:
    """From every state that the two can come to, one of them can go on, to the end of both."""
    states = reachable()

    assert len(states) > 20
    for state in states:
        assert not state.runs() or list(state.moves()), state


def test_a_clean_and_a_compaction_never_commit_at_the_same_time() -> None:
    """In no state that the two can come to are both committing; yet each of them does come to commit."""
    states = reachable()

    assert max(len(state.committing) for state in states) == 1
    assert {service for state in states for service in state.committing} == {Service.COMPACTION, Service.CLEAN}


def test_a_compaction_never_commits_while_a_clean_is_under_way() -> None:
    """In every reachable state in which the compaction commits, no worker is carrying out a clean."""
    assert all(state.clean is None for state in reachable() if Service.COMPACTION in state.committing)


def test_no_question_is_left_open_for_ever() -> None:
    """Whatever else runs, no run waits longer for its commit than the limit."""
    views: list[TableView] = [VIEW, a_view(faults=("cut off",))]
    writes: list[tuple[Instant, ...]] = [(), (WRITE,), (replace(WRITE, guarded_until=None),)]
    others = [
        (replace(CLEANING, id=RunId("k2"), state=state), replace(COMPACTING, id=RunId("c2"), state=state))
        for state in (RunState.RUNNING, RunState.COMMITTING)
    ]
    for run, step, view, endangered, neighbours in itertools.product(
        [COMPACTING, CLEANING, CLUSTERING, ARCHIVING, ORPHANS, unplanned(COMPACTING)], Step, views, writes, others
    ):
        around: dict[str, Any] = {"view": view, "endangered": endangered, "neighbours": neighbours}
        for behind_barrier, unfinished in itertools.product([False, True], [(), (PLANS[1],)]):
            permit = ask(
                run,
                step,
                waited=LIMITS.max_wait_to_commit,
                behind_barrier=behind_barrier,
                unfinished=unfinished,
                **around,
            )
            assert not isinstance(permit, Wait)


# What a plan deletes beyond its table's budget.

_counts = st.integers(0, 10**6)


def a_plan(**counts: Any) -> Plan:
    """Return a plan with these counts."""
    return Plan(instant="00000030", **counts)


@pytest.mark.parametrize(
    ("plan", "budget", "said"),
    [
        (
            a_plan(files_to_delete=24_000),
            DeletionBudget(files=20_000),
            "would delete 24,000 files, more than the budget of 20,000",
        ),
        (
            a_plan(files_to_delete=45, files_in_table=100),
            DeletionBudget(percent=40),
            "would delete 45 of 100 files, more than the budget of 40 %",
        ),
        (
            a_plan(files_to_delete=45),
            DeletionBudget(percent=40),
            "would delete 45 files (the budget is 40 %, and the files of the table were not counted)",
        ),
        (
            a_plan(partitions_to_delete=101, files_to_delete=2),
            DeletionBudget(partitions=100, files=1),
            "would delete 2 files, more than the budget of 1 and 101 partitions, more than the budget of 100",
        ),
    ],
)
def test_people_read_how_much_would_be_deleted_and_what_the_budget_is(
    plan: Plan, budget: DeletionBudget, said: str
) -> None:
    """In numbers, for every limit that is passed."""
    assert excess(plan, budget) == said


@given(files=_counts, partitions=_counts, in_table=_counts)
def test_without_a_budget_nothing_is_too_much(files: int, partitions: int, in_table: int) -> None:
    """A limit that is not set limits nothing."""
    plan = a_plan(files_to_delete=files, partitions_to_delete=partitions, files_in_table=in_table)

    assert excess(plan, DeletionBudget()) is None


@given(files=_counts, allowed=_counts, in_table=st.integers(1, 10**6), percent=st.floats(0, 100))
def test_each_limit_is_the_most_that_may_be_deleted(files: int, allowed: int, in_table: int, percent: float) -> None:
    """The number itself is within the budget, one more is beyond it."""
    plan = a_plan(files_to_delete=files, partitions_to_delete=files, files_in_table=in_table)

    assert (excess(plan, DeletionBudget(files=allowed)) is not None) is (files > allowed)
    assert (excess(plan, DeletionBudget(partitions=allowed)) is not None) is (files > allowed)
    assert (excess(plan, DeletionBudget(percent=percent)) is not None) is (files * 100 > percent * in_table)


def test_a_plan_that_deletes_nothing_of_a_kind_need_not_say_so() -> None:
    """An archive has no files to delete, and a clean no partitions."""
    assert excess(a_plan(), DeletionBudget(files=0, percent=0, partitions=0)) is None


def test_a_first_clean_and_a_shorter_retention_are_said_with_their_numbers() -> None:
    """Each reason is a sentence of its own. A plan that deletes nothing needs nobody."""
    plan, free = a_plan(files_to_delete=1200, files_in_table=4000), DeletionBudget()
    assert unapproved(plan, free, first=True, shorter=None) == (
        "would delete 1,200 of 4,000 files in the first clean of the table"
    )
    both = unapproved(a_plan(files_to_delete=1), DeletionBudget(files=0), first=True, shorter="it kept more")
    assert both == (
        "would delete 1 file, more than the budget of 0; it is the first clean of the table, and it kept more"
    )
    assert unapproved(a_plan(files_to_delete=0), free, first=True, shorter="it kept more") is None
    assert unapproved(plan, free, first=False, shorter=None) is None
