"""One decide function for every service and format. It says what is due, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

from lakewarden.planners.model.decision import Blocked, Decision, DoesNotApply, Due, NotDue, WouldRun
from lakewarden.planners.model.instant import Instant, InstantKind, RunId, Service
from lakewarden.planners.model.table import Mode, Policy, Scheduling
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.planners.services import SERVICES


@dataclass(frozen=True, kw_only=True, slots=True)
class Idle:
    """A run of the service did all the work there was, and the format does not count from that run: it wrote no
    instant, or found no work. The run ended `at` this time, after the change `after`, with so many `commits` and
    `rewrites` in its backlog.
    """

    after: str
    commits: int
    rewrites: int = 0
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """The service does not run before `until`. A run `failed` or yielded, or there is nothing to do before then."""

    until: datetime
    reason: str
    failed: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceState:
    """The facts about one service of one table besides its metadata.

    `ours` are the instants that Lakewarden planned, as the store remembers them. If a plan of the format cannot carry
    its author, it is recognised by them. `approval` is the block of a deletion that waits for an operator. `approved`:
    an operator has approved a deletion, which is planned anew. `shared` is the block of a table in a folder that
    is also registered as another table. `unproved` is the block of a table with writers that were not
    seen to hold its lock. `rewrite_all` says in words that a rewrite of all files was asked for and has not ended.
    `lacking` says what is not proved of a table with a policy that asks for the proof. `table` is the id of the table,
    for the commands that a remedy names.
    """

    mode: Mode
    table: str = "TABLE"
    active: RunId | None = None
    paused: str | None = None
    quarantined: str | None = None
    approval: Blocked | None = None
    approved: bool = False
    backoff: Backoff | None = None
    idle: Idle | None = None
    ours: frozenset[str] = field(default_factory=frozenset)
    shared: Blocked | None = None
    unproved: Blocked | None = None
    rewrite_all: str | None = None
    lacking: str | None = None


def decide(
    *,
    service: Service,
    view: TableView,
    policy: Policy,
    service_state: ServiceState,
    now: datetime,
    asked: bool = False,
) -> Decision:
    """Return whether `service` is due on the table that `view` shows, with the reason.

    `asked` is an operator's request through the API. It skips the trigger and the window, and never a block.
    """
    if service_state.active is not None:
        return NotDue(code="run_active", reason=f"run {service_state.active[:8]} is active")
    moot = next((blocker for blocker in view.blockers if blocker.moot and blocker.concerns(service)), None)
    if moot is not None:
        return DoesNotApply(reason=moot.reason)
    held = _blocked(service, view, service_state, now)
    if held is not None:
        return held
    pending = view.timeline.pending(service)
    if pending:
        decision = _take_up(service, _first(pending, service_state), policy, service_state, now)
    else:
        anew = _plan_anew if service_state.rewrite_all is None else _rewrite_all
        decision = anew(service, view, policy, service_state, now, asked=asked)
    if isinstance(decision, Due) and service_state.mode is Mode.ACT and service_state.lacking is not None:
        return _unproved(decision, service_state.lacking, service_state.table, now)
    return _as_far_as_trusted(decision, service_state.mode)


def _blocked(service: Service, view: TableView, service_state: ServiceState, now: datetime) -> Blocked | None:
    """Return what forbids the service whatever its backlog is. Operators come first, then the table, then a backoff."""
    if service_state.mode is Mode.OBSERVE:
        return Blocked(code="observed_only", reason="the table is only observed", remedy="set its mode to plan or act")
    if service_state.paused is not None:
        return Blocked(
            code="paused",
            reason=f"paused: {service_state.paused}",
            remedy=f"resume it: `lakewarden tables resume {service_state.table}`",
        )
    if service_state.quarantined is not None:
        return Blocked(
            code="quarantined",
            reason=f"in quarantine: {service_state.quarantined}",
            remedy=f"fix the cause, then release it: `{_release(service_state, service)}`",
        )
    waits_for_others = service_state.shared or service_state.approval or service_state.unproved
    if waits_for_others is not None:
        return waits_for_others
    if view.faults:
        return Blocked(
            code="metadata_damaged",
            reason=f"the table's metadata cannot be read whole: {view.faults[0]}",
            remedy=view.mending,
        )
    for blocker in view.blockers:
        if blocker.concerns(service):
            return Blocked(code=blocker.code, reason=blocker.reason, remedy=blocker.remedy)
    if service_state.backoff is not None and service_state.backoff.failed and now < service_state.backoff.until:
        return Blocked(
            code="backing_off",
            reason=f"backing off: {service_state.backoff.reason}",
            remedy=f"wait, or end the wait: `{_release(service_state, service)}`",
            again_at=service_state.backoff.until,
        )
    return None


def _release(service_state: ServiceState, service: Service) -> str:
    return f"lakewarden quarantine release {service_state.table} {service}"


def _first(pending: Sequence[Instant], service_state: ServiceState) -> Instant:
    """Return the plan to be judged: the oldest of Lakewarden's, else the oldest of all."""
    return next((plan for plan in pending if _is_ours(plan, service_state)), pending[0])


def _is_ours(plan: Instant, service_state: ServiceState) -> bool:
    return plan.author is not None or plan.time in service_state.ours


def _take_up(service: Service, plan: Instant, policy: Policy, service_state: ServiceState, now: datetime) -> Decision:
    """Decide on the oldest pending plan. It is due unless another executor may be working on it."""
    if plan.guarded_until is not None and now < plan.guarded_until:
        return Blocked(
            code="guarded_by_heartbeat",
            reason=f"instant {plan.time} is guarded by the heartbeat of its executor",
            again_at=plan.guarded_until,
        )
    if _is_ours(plan, service_state):
        return Due(reason=f"Lakewarden's plan {plan.time} waits to be completed", instant=plan.time)
    if policy.schedule is Scheduling.DAEMON and not SERVICES[service].one_plan:
        return Blocked(
            code="plan_of_a_writer",
            reason=f"plan {plan.time} was made by a writer, and schedule: daemon leaves it to that writer",
            remedy="set schedule: both (or writer) if the table's writers leave execution to Lakewarden",
        )
    grace_ends_at = plan.requested_at + policy.grace
    if now < grace_ends_at:
        return NotDue(
            code="left_to_its_author",
            reason=f"plan {plan.time} of another author is left to it for a grace time",
            again_at=grace_ends_at,
        )
    return Due(reason=f"plan {plan.time} of another author waits to be executed", instant=plan.time)


def _plan_anew(
    service: Service, view: TableView, policy: Policy, service_state: ServiceState, now: datetime, *, asked: bool
) -> Decision:
    backlog = view.backlogs.get(service)
    if backlog is None:
        return view.at_rest.get(service) or NotDue(reason="the table has nothing for it to do")
    if asked:
        return Due(reason="requested manually")
    if backlog.unfinished is not None:
        return _rests(service_state.backoff, None, view, now) or Due(reason=backlog.unfinished)
    if policy.schedule is Scheduling.WRITER:
        return NotDue(code="left_to_its_author", reason="its plans are made by the table's writers")
    idle = None if backlog.exact else service_state.idle
    resting = _rests(service_state.backoff, idle, view, now)
    if resting is not None:
        return resting
    if idle is not None:
        backlog = _since_idle(backlog, idle)
    verdict = policy.trigger.judge(backlog, now)
    if not verdict.fires and not service_state.approved:
        return NotDue(code="trigger_not_reached", reason=verdict.reason, again_at=verdict.again_at)
    reason = "its deletion was approved" if service_state.approved else verdict.reason
    return _in_its_window(reason, policy, now)


def _rewrite_all(
    service: Service, view: TableView, policy: Policy, service_state: ServiceState, now: datetime, *, asked: bool
) -> Decision:
    """Decide on a rewrite of all files. The backlog does not count, because it has only the files that are due.

    The run that an operator has asked for skips the window. The runs that continue it do not.
    """
    reason = service_state.rewrite_all or ""
    if (wait := view.waits.get(service)) is not None:
        return wait
    if asked:
        return Due(reason=reason)
    return _rests(service_state.backoff, None, view, now) or _in_its_window(reason, policy, now)


def _in_its_window(reason: str, policy: Policy, now: datetime) -> Due | NotDue:
    if policy.window is None or policy.window.contains(now):
        return Due(reason=reason)
    return NotDue(code="outside_window", reason=f"outside its window: {reason}", again_at=policy.window.next_start(now))


def _rests(backoff: Backoff | None, idle: Idle | None, view: TableView, now: datetime) -> NotDue | None:
    """Return why there is nothing to do, according to the last run. None if there may be something now."""
    if backoff is not None and now < backoff.until:
        return NotDue(code="after_a_run", reason=backoff.reason, again_at=backoff.until)
    if idle is not None and idle.after == last_change(view):
        return NotDue(reason="the last run did all there was to do, and nothing has changed since")
    return None


def _since_idle(backlog: Backlog, idle: Idle) -> Backlog:
    """Return the backlog without the work that the service has already considered.

    If a count is smaller than it was then, it is not reduced: the service has completed since, or the timeline has
    forgotten commits. The time of the last run counts in any case.
    """
    seen, rewrites = (idle.commits, idle.rewrites) if backlog.commits >= idle.commits else (0, 0)
    return replace(
        backlog,
        commits=backlog.commits - seen,
        commits_since_request=max(0, backlog.commits_since_request - seen),
        rewrites=max(0, backlog.rewrites - rewrites),
        since=_later(backlog.since, idle.at),
        since_request=_later(backlog.since_request, idle.at),
    )


def _later(first: datetime | None, second: datetime | None) -> datetime | None:
    return max((moment for moment in (first, second) if moment is not None), default=None)


def _unproved(due: Due, lacking: str, table: str, now: datetime) -> Blocked:
    """Decide again every minute: a hook, or a worker, changes no table."""
    next_minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return Blocked(
        code="proof_missing",
        reason=f"due, and held back until the table is proved: {due.reason}. Not proved: {lacking}",
        remedy=f"`lakewarden doctor {table}` prints each check with its cure; act_when: at_once needs no proof",
        again_at=next_minute,
    )


def _as_far_as_trusted(decision: Decision, mode: Mode) -> Decision:
    match decision:
        case Due() if mode is Mode.PLAN:
            return WouldRun(reason=decision.reason, instant=decision.instant)
        case Due() | NotDue() | WouldRun() | Blocked() | DoesNotApply():
            return decision
        case _:
            assert_never(decision)


_BRINGS_WORK = frozenset({InstantKind.WRITE, Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING})


def last_change(view: TableView) -> str:
    """Return a text that changes with new work: how much was written or rewritten, and when last.

    A rewrite counts. A compaction leaves behind old files for a clean that found none before.
    """
    changes = [i.completed_time or i.time for i in view.timeline.instants if _is_change(i)]
    return f"{len(changes)} until {max(changes, default='ever')}"


def _is_change(instant: Instant) -> bool:
    return not instant.pending and instant.stands_for in _BRINGS_WORK


def next_decision_at(decisions: Iterable[Decision]) -> datetime | None:
    """Return when time alone could change one of the decisions."""
    times = [d.again_at for d in decisions if isinstance(d, NotDue | Blocked) and d.again_at is not None]
    return min(times) if times else None
