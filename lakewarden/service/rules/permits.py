"""Permits: the permission that a run needs before each step that changes its table.

What each step needs, and which writer or reader this protects:

- every step: the lease is ours, its epoch is the newest, and the folder of the table has no second name. So no
  two owners execute one plan. The writers of the table were seen to hold the lock that its options name;
- plan: no write is in flight that the plan would make fail. The wait is bounded, because a writer may never pause. No
  clean of ours was left unfinished: such a clean is finished first;
- execute: no heartbeat shows that another executor has begun to execute the plan. No write in flight would prevent its
  commit, so nothing is rewritten in vain;
- execute and commit: the timeline still shows the instant as ours to complete. A completed instant is never run again;
- commit: no clean of the table is executing (the commit waits for it), and no write in flight would fail by it;
- every step of a service that gives way (a clustering or a log compaction to a compaction): no run of the other service
  waits. Files that are rewritten already may still be committed, if that is possible at once;
- a commit that deletes: no run is committing on the table, no barrier of a writer delays it, and the deletion is within
  the budget of the table or approved;
- a service that deletes unknown files (orphans): no run beside it is so old that its own files could count as orphans;
- a joined commit must not stand still until its permit expires.

Judging is pure. A request that must wait stays open and is judged again. A service with a pending plan that makes
writers fail never waits: it is refused, and withdraws its plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

from lakewarden.executors.contract import Granted, Permit, Plan, Refused, Wait
from lakewarden.planners.model.instant import Fate, Instant, Service, Step
from lakewarden.planners.model.table import DeletionBudget
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import format_duration
from lakewarden.service.model.run import Run, RunState


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How long a request may stay open, and how long a joined step may take."""

    max_wait_for_writers: timedelta = timedelta(minutes=5)
    """A plan waits this long for a moment without a write in flight. Then it is made beside a write, if the format
    allows that.
    """

    max_wait_to_commit: timedelta = timedelta(minutes=10)
    """A commit waits this long for a clean, or for a write that it would fail. Then the run yields."""

    joined_step: timedelta = timedelta(minutes=30)
    """If no Spark task of a joined step ends for this long, the JVM of the step is killed."""

    locked_step: timedelta = timedelta(minutes=8)
    """The longest time of a joined step that holds the lock of the table, even if it makes progress. Writers are told
    to give up the lock after ten minutes.
    """

    step: timedelta = timedelta(hours=2)
    """If no Spark task of any other step ends for this long, the step is cancelled."""

    longest_step: timedelta = timedelta(days=1)
    """A step that takes this long is ended although its tasks end: it may begin the same work again and again."""

    slowest: int = 2**20
    """The slowest expected rewriting of a plan, in bytes a second. The limits are longer by the time that this
    takes.
    """

    def timeouts(self, service: Service, plan: Plan | None) -> StepTimeouts:
        """Return how long a step of a plan may take. Larger file groups and larger plans get longer.

        One task rewrites one file group, and reports nothing until it ends. The plan does not say which file group is
        the largest. It is taken for several times the average.
        """
        if SERVICES[service].locked:
            return StepTimeouts(without_progress=self.locked_step, in_all=self.locked_step)
        base = self.joined_step if SERVICES[service].joined else self.step
        size = 0 if plan is None else plan.bytes or 0
        group = size if plan is None or not plan.file_groups else min(size, size * _SKEW // plan.file_groups)
        still = base + self._time_for(group)
        return StepTimeouts(without_progress=still, in_all=max(still, self.longest_step + self._time_for(size)))

    def _time_for(self, size: int) -> timedelta:
        """Return how long it takes at most to rewrite so many bytes. Whole minutes are easier to read."""
        return timedelta(minutes=size // (60 * self.slowest))


_SKEW = 4
"""How many times the average the largest file group of a plan is expected to be."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTimeouts:
    """`without_progress` is how long a step may run without the end of a Spark task. `in_all` is the limit of the whole
    step.
    """

    without_progress: timedelta
    in_all: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class PermitRequest:
    """What a run wants to do next. `waited` is how long the request has been open."""

    run: Run
    step: Step
    plan: Plan | None
    waited: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class PermitContext:
    """All facts that the answer depends on. They were read after the request was made.

    `endangered` are the writes in flight that would fail by this step. `awaited` is what the format had better wait for
    besides. `neighbours` are our other runs on the same table that a worker is carrying out. `held` is a reason to stop
    (paused, draining). `unfinished` are cleans of ours that were left unfinished. `unapproved` is what the plan deletes
    beyond the budget. `behind_barrier`: the barrier of a writer delays cleans. `shared` names the second
    table in the folder. `unproved` is why the lock may not separate the writers from us. `guarded`: a heartbeat guards
    the instant. `goes_first` is the queued run that this run gives way to.
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
    behind_barrier: bool = False
    shared: str | None = None
    unproved: str | None = None
    guarded: bool = False
    goes_first: Run | None = None


def judge(request: PermitRequest, context: PermitContext) -> Permit:
    """Return whether a run may take its next step now."""
    permit = _judged(request, context)
    if context.goes_first is not None and _gives_way(request, permit):
        return Refused(reason=f"{_names([context.goes_first])} is due and goes first")
    if isinstance(permit, Wait) and request.step is not Step.PLAN and SERVICES[request.run.service].yields:
        return Refused(reason=f"{permit.reason}, and its plan must not wait: it would make writers fail")
    return permit


def _gives_way(request: PermitRequest, permit: Permit) -> bool:
    """Whether a run lets another run go first now: always, unless it has rewritten its files and may commit at once."""
    has_rewritten = request.step is Step.COMMIT and not SERVICES[request.run.service].joined
    return isinstance(permit, Wait) or (isinstance(permit, Granted) and not has_rewritten)


def _judged(request: PermitRequest, context: PermitContext) -> Permit:
    refusal = _refusal(request, context)
    if refusal is not None:
        return Refused(reason=refusal)
    if context.view.faults:  # a file that is being written cannot be read for a moment
        return _patiently(request, context, f"the metadata cannot be read whole: {context.view.faults[0]}")
    match request.step:
        case Step.PLAN:
            return _plan(request, context)
        case Step.EXECUTE:
            return _execute(request, context)
        case Step.COMMIT:
            return _commit(request, context)
        case _:
            assert_never(request.step)


def _refusal(request: PermitRequest, context: PermitContext) -> str | None:
    """Return a reason that forbids every step, or None."""
    run = request.run
    if not context.lease_held:
        return "this daemon has lost its lease"
    if context.shared is not None:
        return context.shared
    if context.unproved is not None:
        return context.unproved
    if context.held is not None:
        return context.held
    if str(context.view.identity) != run.identity:
        return "the table was dropped and made again"
    for blocker in context.view.blockers:
        if blocker.concerns(run.service):
            return blocker.reason
    if run.instant is not None and not context.view.faults:
        fate = context.view.timeline.fate(run=run.id, instant=run.instant)
        if fate is not Fate.PENDING:
            return f"instant {run.instant} is {fate} on the timeline"
    return None


def _alive(writes: Sequence[Instant], now: datetime) -> list[Instant]:
    """Return the writes that may still succeed. A write with a heartbeat that has run out cannot be failed by us."""
    return [write for write in writes if write.may_be_alive(now)]


def _names(instants: Sequence[Instant | Run]) -> str:
    return ", ".join(i.time if isinstance(i, Instant) else f"{i.service} {i.id}" for i in instants)


def _plan(request: PermitRequest, context: PermitContext) -> Permit:
    traits = SERVICES[request.run.service]
    if context.unfinished and not traits.delays_commits:
        return Refused(reason=f"clean {_names(context.unfinished)} was left unfinished, and is finished first")
    if (old := _too_old_beside(request.run, context)) is not None:
        return _patiently(request, context, old)
    if request.run.instant is not None:
        return Granted(reason=f"plan {request.run.instant} is on the timeline already")
    writes = _alive(context.endangered, context.now)
    if not writes:
        return Granted(reason="no write in flight would fail by a plan")
    if request.waited < context.limits.max_wait_for_writers:
        return Wait(reason=f"write {_names(writes)} is in flight")
    never = f"no moment without a write in flight within {format_duration(context.limits.max_wait_for_writers)}"
    return Refused(reason=never) if traits.yields else Granted(reason=never)


def _execute(request: PermitRequest, context: PermitContext) -> Permit:
    if context.guarded:
        return Refused(reason=f"instant {request.run.instant} is guarded by the heartbeat of its executor")
    writes = _alive(context.endangered, context.now)
    if writes:
        return Refused(
            reason=f"write {_names(writes)} began before the plan and would fail by it: "
            "the plan is withdrawn, and made again in a moment without writes"
        )
    if context.awaited is not None:
        return _patiently(request, context, context.awaited)
    return Granted(reason="the instant is ours to complete")


def _commit(request: PermitRequest, context: PermitContext) -> Permit:
    if context.unapproved is not None:
        return Refused(reason=context.unapproved)
    waits_for = _in_the_way(request.run, context)
    if waits_for is None:
        granted = Granted(reason="the instant is ours to complete, no clean is executing, no write would fail")
        if not SERVICES[request.run.service].joined:
            return granted
        timeouts = context.limits.timeouts(request.run.service, request.plan)
        return replace(granted, expires=timeouts.without_progress, at_most=timeouts.in_all)
    return _patiently(request, context, waits_for)


def _patiently(request: PermitRequest, context: PermitContext, waits_for: str) -> Permit:
    """Wait within the limit. After it the run yields, and its plan stays pending."""
    if request.waited < context.limits.max_wait_to_commit:
        return Wait(reason=waits_for)
    return Refused(reason=f"{waits_for}: not after {format_duration(context.limits.max_wait_to_commit)} either")


def _in_the_way(run: Run, context: PermitContext) -> str | None:
    """Return what a commit waits for, or None.

    A commit waits for a clean that a worker has taken up, in any step, and for a clean that was left unfinished. The
    clean waits only for a commit that is already granted, which ends by itself, and for the barrier of a writer, which
    is bounded. So the two can never wait for each other.
    """
    traits = SERVICES[run.service]
    if context.unfinished and not traits.delays_commits:
        return f"clean {_names(context.unfinished)} was left unfinished, and is finished first"
    if context.behind_barrier and traits.delays_commits:
        return "a writer's barrier holds cleans back"
    if traits.deletes:
        committing = [n for n in context.neighbours if n.state is RunState.COMMITTING]
        if committing:
            return f"{_names(committing)} is committing"
    else:
        cleans = [n for n in context.neighbours if SERVICES[n.service].delays_commits]
        if cleans:
            return f"{_names(cleans)} is executing, and the commit waits for it"
    if (old := _too_old_beside(run, context)) is not None:
        return old
    writes = _alive(context.endangered, context.now)
    if writes:
        return f"write {_names(writes)} is in flight and would fail by this commit"
    return context.awaited


def _too_old_beside(run: Run, context: PermitContext) -> str | None:
    """Return the run beside this one that is so old that its uncommitted files could count as orphans, or None."""
    most = SERVICES[run.service].oldest_beside
    if most is None:
        return None
    old = [
        neighbour
        for neighbour in context.neighbours
        if context.now - (neighbour.started_at or neighbour.created_at) > most
    ]
    if not old:
        return None
    return f"{_names(old)} has been running for more than {format_duration(most)}: its files may be too old to be told"


# The deletion budget: what a run may delete without the approval of an operator. Pure.


def excess(plan: Plan, budget: DeletionBudget) -> str | None:
    """Return in words what a plan would delete beyond the budget of its table, or None if it stays within the budget.

    If a plan does not say how many files or partitions it deletes, it deletes none. If the files of the table were not
    counted, a deletion exceeds every budget in percent.
    """
    over = [
        sentence for sentence in (_files(plan, budget), _share(plan, budget), _partitions(plan, budget)) if sentence
    ]
    return f"would delete {' and '.join(over)}" if over else None


def unapproved(plan: Plan, budget: DeletionBudget, *, first: bool, shorter: str | None) -> str | None:
    """Return in words what of a plan needs an approval, or None if nothing does.

    `first`: no clean of the table was ever permitted to delete. `shorter` says what the writers kept that the policy
    does not.
    """
    reason = excess(plan, budget)
    if plan.files_to_delete and first:
        the_first = f"would delete {_amount(plan)} in the first clean of the table"
        reason = the_first if reason is None else f"{reason}; it is the first clean of the table"
    if plan.files_to_delete and shorter is not None:
        reason = f"{reason or f'would delete {_amount(plan)}'}, and {shorter}"
    return reason


def _amount(plan: Plan) -> str:
    files = plan.files_to_delete or 0
    if plan.files_in_table is None:
        return _counted(files, "file")
    return f"{files:,} of {plan.files_in_table:,} files"


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _files(plan: Plan, budget: DeletionBudget) -> str | None:
    files = plan.files_to_delete or 0
    if budget.files is None or files <= budget.files:
        return None
    return f"{_counted(files, 'file')}, more than the budget of {budget.files:,}"


def _share(plan: Plan, budget: DeletionBudget) -> str | None:
    files = plan.files_to_delete or 0
    if budget.percent is None or files == 0:
        return None
    if plan.files_in_table is None:
        why = f"the budget is {budget.percent:g} %, and the files of the table were not counted"
        return f"{_counted(files, 'file')} ({why})"
    if files * 100 <= budget.percent * plan.files_in_table:
        return None
    return f"{files:,} of {plan.files_in_table:,} files, more than the budget of {budget.percent:g} %"


def _partitions(plan: Plan, budget: DeletionBudget) -> str | None:
    partitions = plan.partitions_to_delete or 0
    if budget.partitions is None or partitions <= budget.partitions:
        return None
    return f"{_counted(partitions, 'partition')}, more than the budget of {budget.partitions:,}"


# How long Lakewarden was seen to hold the lock of a table. Its writers must wait for at least that long.


def worst_hold(runs: Iterable[Run]) -> timedelta | None:
    """Return the longest time that a step of these runs can have held the lock, or None if nothing was measured.

    The lock is held within planning and within committing. So the durations of these steps are an upper bound. If
    execute and commit are joined, the duration of that step is no bound, because its work is done without the lock.
    Some services measure how long they hold the lock. Then that figure counts.
    """
    bounds = [seconds for run in runs for seconds in lock_bounds(run)]
    return timedelta(seconds=max(bounds)) if bounds else None


def lock_bounds(run: Run) -> list[float]:
    """Return for each step of a run that holds the lock how many seconds it can have held the lock."""
    traits = SERVICES[run.service]
    if traits.locked:
        names = ["lock_held_seconds"]
    else:
        names = ["plan_seconds"] if traits.joined else ["plan_seconds", "commit_seconds"]
    return [float(run.figures[name]) for name in names if name in run.figures]
