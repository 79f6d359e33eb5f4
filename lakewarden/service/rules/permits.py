"""Permits: the leave a run asks for before each step that changes its table.

What each step needs, and which writer or reader it protects:

- every step: the lease is ours and newest, and no daemon with another store has claimed the table, so that no two
  owners execute one plan; and the table's writers were seen to hold the lock that its options name;
- plan: no write is in flight that a plan would make fail (bounded: a writer that never pauses must not starve us), and
  no clean of ours was left half-way: it is finished first;
- execute: no heartbeat shows that somebody else has begun to execute the plan, and no write in flight would keep it
  from being committed: nothing is rewritten in vain;
- execute and commit: the timeline still shows the instant as ours to complete: what is completed is never run again;
- commit: no clean of the table is executing (it is waited for), and no write in flight would fail by this commit;
- every step of a service that gives way to another (a clustering, a log compaction to a compaction): no run of that
  one waits for it; what is rewritten already may be committed all the same, if it is at once;
- a deleting commit: nobody is committing on the table, no writer's barrier holds it back, and what it deletes is within
  the table's budget or approved;
- a joined commit must not stand still until its permit expires.

Judging is pure. A question that must wait stays open and is judged again; but a service whose pending plan makes
writers fail never waits with one: it is refused, and withdraws its plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from lakewarden.executors.contract import Granted, Permit, Plan, Refused, Step, Wait
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.timeline import Fate
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import format_duration
from lakewarden.service.model.run import Run, RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long a question may stay open, and how long a joined step may take."""

    writer_patience: timedelta = timedelta(minutes=5)
    """A plan waits this long for a moment without a write in flight; then it is made beside one, where the
    format can bear that."""

    commit_patience: timedelta = timedelta(minutes=10)
    """A commit waits this long for a clean, or for a write it would fail; then the run yields."""

    joined_step: timedelta = timedelta(minutes=30)
    """A joined step that stands still for this long, none of its Spark tasks ending, is ended by killing its JVM."""

    locked_step: timedelta = timedelta(minutes=8)
    """A joined step that holds the table's lock may take this long, however it goes on: writers give the lock up after
    ten minutes, as they are told to."""

    step: timedelta = timedelta(hours=2)
    """Any other step that stands still for this long is cancelled."""

    longest_step: timedelta = timedelta(days=1)
    """A step that goes on for this long is ended although its tasks end: it may begin the same again and again."""

    slowest: int = 2**20
    """Bytes a second that the rewriting of a plan is taken to need at least: so much longer is each of the three."""

    def patience(self, service: Service, plan: Plan | None) -> Patience:
        """Return how long a step of a plan may go on: it is longer for larger file groups, and for larger plans.

        One task rewrites one file group, and tells nothing until it has. Which is the largest the plan does not say: it
        is taken for several times the average.
        """
        if SERVICES[service].locked:
            return Patience(still=self.locked_step, whole=self.locked_step)
        base = self.joined_step if SERVICES[service].joined else self.step
        size = 0 if plan is None else plan.bytes or 0
        group = size if plan is None or not plan.file_groups else min(size, size * _SKEW // plan.file_groups)
        still = base + self._time_for(group)
        return Patience(still=still, whole=max(still, self.longest_step + self._time_for(size)))

    def _time_for(self, size: int) -> timedelta:
        """Return how long it takes at most to rewrite so many bytes, in whole minutes, which people read."""
        return timedelta(minutes=size // (60 * self.slowest))


_SKEW = 4
"""How many times the average the largest file group of a plan is expected to be at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Patience:
    """How long a step may stand `still`, none of its Spark tasks ending, and how long it may take as a `whole`."""

    still: timedelta
    whole: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What a run wants to do next. `waited` is how long it has been standing there."""

    run: Run
    step: Step
    plan: Plan | None
    waited: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Circumstances:
    """All that the answer depends on, read after the question was asked.

    `endangered` are the writes in flight that would fail by this step, `awaited` is what the format had better wait for
    besides; `neighbours` the other runs of ours that a worker is carrying out on the same table; `held` a reason to
    stop (paused, draining), if there is one. `unfinished` are cleans of ours that were left half-way; `unapproved` is
    what the plan deletes beyond the budget; `barred` tells that a writer's barrier holds cleans back. `claimed` is why
    the table is not ours to act on, `unproved` why its lock may keep nobody apart; `guarded` tells that a heartbeat
    guards the instant that nobody dead has left. `goes_first` is the queued run that this one gives way to.
    """

    view: TableView
    endangered: Sequence[Instant]
    neighbours: Sequence[Run]
    lease_held: bool
    held: str | None
    now: datetime
    limits: Limits
    unfinished: Sequence[Instant] = ()
    awaited: str | None = None
    unapproved: str | None = None
    barred: bool = False
    claimed: str | None = None
    unproved: str | None = None
    guarded: bool = False
    goes_first: Run | None = None


def judge(question: Question, around: Circumstances) -> Permit:
    """Return whether a run may take its next step now."""
    permit = _judged(question, around)
    if around.goes_first is not None and _gives_way(question, permit):
        return Refused(reason=f"{_names([around.goes_first])} is due and goes first")
    if isinstance(permit, Wait) and question.step is not Step.PLAN and SERVICES[question.run.service].yields:
        return Refused(reason=f"{permit.reason}, and its plan must not wait: it would make writers fail")
    return permit


def _gives_way(question: Question, permit: Permit) -> bool:
    """Whether a run lets another go first now: always, but with what it has rewritten and may commit at once."""
    has_rewritten = question.step is Step.COMMIT and not SERVICES[question.run.service].joined
    return isinstance(permit, Wait) or (isinstance(permit, Granted) and not has_rewritten)


def _judged(question: Question, around: Circumstances) -> Permit:
    refusal = _refusal(question, around)
    if refusal is not None:
        return Refused(reason=refusal)
    if around.view.faults:  # a file that is being written looks like that for a moment
        return _patiently(question, around, f"the metadata cannot be read whole: {around.view.faults[0]}")
    match question.step:
        case Step.PLAN:
            return _plan(question, around)
        case Step.EXECUTE:
            return _execute(question, around)
        case Step.COMMIT:
            return _commit(question, around)
        case _:
            assert_never(question.step)


def _refusal(question: Question, around: Circumstances) -> str | None:
    """Return what forbids any step."""
    run = question.run
    if not around.lease_held:
        return f"the lease of epoch {run.epoch} is no longer the newest"
    if around.claimed is not None:
        return around.claimed
    if around.unproved is not None:
        return around.unproved
    if around.held is not None:
        return around.held
    if str(around.view.identity) != run.identity:
        return "the table was dropped and made again"
    for hindrance in around.view.hindrances:
        if hindrance.concerns(run.service):
            return hindrance.reason
    if run.instant is not None and not around.view.faults:
        fate = around.view.timeline.fate(run=run.id, instant=run.instant)
        if fate is not Fate.PENDING:
            return f"instant {run.instant} is {fate} on the timeline"
    return None


def _alive(writes: Sequence[Instant], now: datetime) -> list[Instant]:
    """Return the writes that may still end well: a write whose heartbeat has run out cannot be failed by us."""
    return [write for write in writes if write.may_be_alive(now)]


def _names(instants: Sequence[Instant | Run]) -> str:
    return ", ".join(i.time if isinstance(i, Instant) else f"{i.service} {i.id}" for i in instants)


def _plan(question: Question, around: Circumstances) -> Permit:
    traits = SERVICES[question.run.service]
    if around.unfinished and not traits.barrier:
        return Refused(reason=f"clean {_names(around.unfinished)} was left half-way and is finished first")
    if question.run.instant is not None:
        return Granted(reason=f"plan {question.run.instant} is on the timeline already")
    writes = _alive(around.endangered, around.now)
    if not writes:
        return Granted(reason="no write in flight would fail by a plan")
    if question.waited < around.limits.writer_patience:
        return Wait(reason=f"write {_names(writes)} is in flight")
    never = f"no moment without a write in flight within {format_duration(around.limits.writer_patience)}"
    return Refused(reason=never) if traits.yields else Granted(reason=never)


def _execute(question: Question, around: Circumstances) -> Permit:
    if around.guarded:
        return Refused(reason=f"instant {question.run.instant} is guarded by the heartbeat of whoever executes it")
    writes = _alive(around.endangered, around.now)
    if writes:
        return Refused(
            reason=f"write {_names(writes)} began before the plan and would fail by it: "
            "the plan is withdrawn, and made again in a moment without writes"
        )
    if around.awaited is not None:
        return _patiently(question, around, around.awaited)
    return Granted(reason="the instant is ours to complete")


def _commit(question: Question, around: Circumstances) -> Permit:
    if around.unapproved is not None:
        return Refused(reason=around.unapproved)
    waits_for = _in_the_way(question.run, around)
    if waits_for is None:
        granted = Granted(reason="the instant is ours to complete, no clean is executing, no write would fail")
        if not SERVICES[question.run.service].joined:
            return granted
        patience = around.limits.patience(question.run.service, question.plan)
        return replace(granted, expires=patience.still, at_most=patience.whole)
    return _patiently(question, around, waits_for)


def _patiently(question: Question, around: Circumstances, waits_for: str) -> Permit:
    """Wait, but not for ever: then the run yields, and what it planned stays pending."""
    if question.waited < around.limits.commit_patience:
        return Wait(reason=waits_for)
    return Refused(reason=f"{waits_for}: not after {format_duration(around.limits.commit_patience)} either")


def _in_the_way(run: Run, around: Circumstances) -> str | None:
    """Return what a commit waits for.

    A clean that a worker has taken up is waited for, whatever it is doing, and so is one that was left half-way. It
    waits in turn only for a commit that is already granted and so ends by itself, and for a writer's barrier, which
    is bounded: the two can never wait for each other.
    """
    traits = SERVICES[run.service]
    if around.unfinished and not traits.barrier:
        return f"clean {_names(around.unfinished)} was left half-way and is finished first"
    if around.barred and traits.barrier:
        return "a writer's barrier holds cleans back"
    if traits.deletes:
        committing = [n for n in around.neighbours if n.state is RunState.COMMITTING]
        if committing:
            return f"{_names(committing)} is committing"
    else:
        cleans = [n for n in around.neighbours if SERVICES[n.service].barrier]
        if cleans:
            return f"{_names(cleans)} is executing and is waited for"
    writes = _alive(around.endangered, around.now)
    if writes:
        return f"write {_names(writes)} is in flight and would fail by this commit"
    return around.awaited
