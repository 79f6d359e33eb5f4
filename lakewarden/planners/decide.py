"""One decide function for every service and format: what is due, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import assert_never

from lakewarden.planners.model.decision import Blocked, Decision, Due, NotDue
from lakewarden.planners.model.instant import Deed, Instant, RunId, Service
from lakewarden.planners.model.table import Mode, Policy, Scheduling
from lakewarden.planners.model.view import Backlog, TableView
from lakewarden.planners.services import SERVICES


@dataclass(frozen=True, kw_only=True, slots=True)
class Idle:
    """The service did all that there was to do, and the format does not count from that (it wrote no instant, or
    found no work): after the change `after`, with so many `commits` and `rewrites` in its backlog, at `at`.
    """

    after: str
    commits: int
    rewrites: int = 0
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Backoff:
    """The service is left alone until `until`: it `failed` or stepped back, or else has nothing to do before."""

    until: datetime
    reason: str
    failed: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What we know of one service of one table apart from its metadata.

    `ours` are the instants that runs of ours planned, as the store remembers them: a plan whose format
    cannot carry its author is recognised by it. `approval` is the block of a deletion that waits for a person.
    `claimed` is the block by another daemon that has claimed the table. `freed` are pending instants whose executor is
    proved dead: the heartbeat that it left guards nobody. `unproved` is the block of a table whose writers were not
    seen to hold its lock.
    """

    mode: Mode
    active: RunId | None = None
    paused: str | None = None
    quarantined: str | None = None
    approval: Blocked | None = None
    backoff: Backoff | None = None
    idle: Idle | None = None
    ours: frozenset[str] = field(default_factory=frozenset)
    claimed: Blocked | None = None
    unproved: Blocked | None = None
    freed: frozenset[str] = field(default_factory=frozenset)


def decide(
    *, service: Service, view: TableView, policy: Policy, standing: Standing, now: datetime, asked: bool = False
) -> Decision:
    """Return whether `service` is due on the table that `view` shows, with the reason.

    `asked` is a person's request through the API: it skips the trigger and the window, and never a block.
    """
    if standing.active is not None:
        return NotDue(reason=f"run {standing.active} is active")
    held = _held_back(service, view, standing, now)
    if held is not None:
        return held
    pending = view.timeline.pending(service)
    decision = (
        _take_up(service, _first(pending, standing), policy, standing, now)
        if pending
        else _plan_anew(service, view, policy, standing, now, asked=asked)
    )
    return _as_far_as_trusted(decision, standing.mode)


def _held_back(service: Service, view: TableView, standing: Standing, now: datetime) -> Blocked | None:
    """Return what forbids the service whatever its backlog is: people first, then the table, then we."""
    if standing.mode is Mode.OBSERVE:
        return Blocked(reason="the table is only observed", remedy="set its mode to plan or act")
    if standing.paused is not None:
        return Blocked(reason=f"paused: {standing.paused}", remedy="resume it")
    if standing.quarantined is not None:
        return Blocked(reason=f"in quarantine: {standing.quarantined}", remedy="mend the cause, then resume the table")
    waits_for_others = standing.claimed or standing.approval or standing.unproved
    if waits_for_others is not None:
        return waits_for_others
    if view.faults:
        return Blocked(reason=f"the table's metadata cannot be read whole: {view.faults[0]}")
    for hindrance in view.hindrances:
        if hindrance.concerns(service):
            return Blocked(reason=hindrance.reason, remedy=hindrance.remedy)
    if standing.backoff is not None and standing.backoff.failed and now < standing.backoff.until:
        return Blocked(reason=f"backing off: {standing.backoff.reason}", again_at=standing.backoff.until)
    return None


def _first(pending: Sequence[Instant], standing: Standing) -> Instant:
    """Return the plan to be judged: the oldest of ours, whatever others have left lying, or else the oldest."""
    return next((plan for plan in pending if _is_ours(plan, standing)), pending[0])


def _is_ours(plan: Instant, standing: Standing) -> bool:
    return plan.author is not None or plan.time in standing.ours


def _take_up(service: Service, plan: Instant, policy: Policy, standing: Standing, now: datetime) -> Decision:
    """Decide on the oldest pending plan: it is due by itself unless somebody may be at it."""
    if plan.guarded_until is not None and now < plan.guarded_until and plan.time not in standing.freed:
        return Blocked(
            reason=f"instant {plan.time} is guarded by the heartbeat of whoever executes it",
            again_at=plan.guarded_until,
        )
    if _is_ours(plan, standing):
        return Due(reason=f"our plan {plan.time} waits to be completed", instant=plan.time)
    if policy.schedule is Scheduling.DAEMON and not SERVICES[service].one_plan:
        return Blocked(
            reason=f"plan {plan.time} was made by a writer, and schedule: daemon leaves it to that writer",
            remedy="set schedule: both (or writer) if the table's writers leave execution to Lakewarden",
        )
    ripe_at = plan.requested_at + policy.grace
    if now < ripe_at:
        return NotDue(reason=f"plan {plan.time} of another author is left to it for a grace time", again_at=ripe_at)
    return Due(reason=f"plan {plan.time} of another author waits to be executed", instant=plan.time)


def _plan_anew(
    service: Service, view: TableView, policy: Policy, standing: Standing, now: datetime, *, asked: bool
) -> Decision:
    backlog = view.backlogs.get(service)
    if backlog is None:
        return view.at_rest.get(service) or NotDue(reason="the table has nothing for it to do")
    if asked:
        return Due(reason="asked for")
    if backlog.unfinished is not None:
        return Due(reason=backlog.unfinished)
    if policy.schedule is Scheduling.WRITER:
        return NotDue(reason="its plans are made by the table's writers")
    idle = None if backlog.exact else standing.idle
    resting = _rests(standing.backoff, idle, view, now)
    if resting is not None:
        return resting
    if idle is not None:
        backlog = _since_idle(backlog, idle)
    verdict = policy.trigger.judge(backlog, now)
    if not verdict.fires:
        return NotDue(reason=verdict.reason, again_at=verdict.again_at)
    if policy.window is not None and not policy.window.contains(now):
        return NotDue(reason=f"outside its window: {verdict.reason}", again_at=policy.window.next_start(now))
    return Due(reason=verdict.reason)


def _rests(backoff: Backoff | None, idle: Idle | None, view: TableView, now: datetime) -> NotDue | None:
    """Return why there is nothing to do, as the last run found it; None where there may be something by now."""
    if backoff is not None and now < backoff.until:
        return NotDue(reason=backoff.reason, again_at=backoff.until)
    if idle is not None and idle.after == last_change(view):
        return NotDue(reason="has done all there was to do, and nothing has changed since")
    return None


def _since_idle(backlog: Backlog, idle: Idle) -> Backlog:
    """Return the backlog without what the service has seen already.

    A smaller count than that of then means nothing: the service has completed since, or the timeline has forgotten
    commits. When it looked last is true all the same.
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


def _later(one: datetime | None, other: datetime | None) -> datetime | None:
    return max((moment for moment in (one, other) if moment is not None), default=None)


def _as_far_as_trusted(decision: Decision, mode: Mode) -> Decision:
    match decision:
        case Due() if mode is Mode.PLAN:
            return Blocked(reason=f"would run: {decision.reason}", remedy="set the table's mode to act")
        case Due() | NotDue() | Blocked():
            return decision
        case _:
            assert_never(decision)


_BRINGS_WORK = frozenset({Deed.WRITE, Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING})


def last_change(view: TableView) -> str:
    """Return by what new work is recognised: how much was written or rewritten, and when last.

    A rewrite counts: a compaction leaves behind the very files that a clean found nothing of before.
    """
    changes = [i.completed_time or i.time for i in view.timeline.instants if _is_change(i)]
    return f"{len(changes)} until {max(changes, default='ever')}"


def _is_change(instant: Instant) -> bool:
    return not instant.pending and instant.stands_for in _BRINGS_WORK


def next_look(decisions: Mapping[Service, Decision]) -> datetime | None:
    """Return when time alone could change one of the decisions."""
    times = [d.again_at for d in decisions.values() if not isinstance(d, Due) and d.again_at is not None]
    return min(times) if times else None
