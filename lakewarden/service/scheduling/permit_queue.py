"""The permit queue: from the request of a run until the end of the step that it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import Asked, Granted, Plan, Pool, Refused, Wait
from lakewarden.executors.points import Point
from lakewarden.planners.model.errors import LakewardenError, UnknownError
from lakewarden.planners.model.instant import RunId, Step
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import format_duration
from lakewarden.service.model.run import Run, RunState, SupersededError
from lakewarden.service.rules.permits import Limits, PermitContext, PermitRequest, StepTimeouts, judge
from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.state.active_runs import UNDER_WAY
from lakewarden.service.state.daemon_state import DaemonState, Resources

log = structlog.get_logger(__name__)

QUICK_OBSERVATION_SECONDS = 0.1
LONGEST_REST_SECONDS = 5.0
"""If the observation for a request took longer than `QUICK_OBSERVATION_SECONDS`, the request rests as long, but no
longer than this. A wait on a table with hundreds of thousands of files must not keep a core busy.
"""

UNREADABLE_REST_SECONDS = 5.0
"""How long a request rests after the reading of its table failed for an unexpected reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _OpenRequest:
    """A request that has not been answered yet.

    It is judged by what is read since `mark`, which was set at `marked_at`, and not before `rests_until` (monotonic
    times). A request that was judged already is not read `anew`: it is judged again if the token confirms the last
    observation.
    """

    step: Step
    plan: Plan | None
    asked_at: float
    mark: int
    marked_at: float
    rests_until: float = float("-inf")
    anew: bool = True
    waits_for: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Underway:
    """A step that was granted without an expiry of its own. `overdue` says why it was cancelled."""

    step: Step
    since: float
    timeouts: StepTimeouts
    overdue: str | None = None

    def why_overdue(self, now: float, advanced_at: float | None) -> str | None:
        """Return why the step must be cancelled now, or None.

        `advanced_at` is when a Spark task of the run was last seen to end.
        """
        moved = advanced_at is not None and advanced_at > self.since
        if now - self.since >= self.timeouts.in_all.total_seconds():
            return f"its step {self.step} did not end within {format_duration(self.timeouts.in_all)}"
        if (
            now - (advanced_at if moved and advanced_at else self.since)
            < self.timeouts.without_progress.total_seconds()
        ):
            return None
        still = format_duration(self.timeouts.without_progress)
        if moved:
            return f"its step {self.step} made no progress for {still}: no Spark task ended"
        return f"its step {self.step} did not end within {still}"


class PermitQueue:
    """Holds the open requests and the steps under way. Only the control thread changes it."""

    def __init__(
        self,
        *,
        resources: Resources,
        state: DaemonState,
        permit_contexts: PermitContexts,
        limits: Limits,
    ) -> None:
        self._tables = state.tables
        self._observations = state.observations
        self._active_runs = state.active_runs
        self._permit_contexts = permit_contexts
        self._approvals = state.approvals
        self._pools = resources.pools
        self._clock = resources.clock
        self._listener = resources.listener
        self._limits = limits
        self._open: dict[RunId, _OpenRequest] = {}
        self._underway: dict[RunId, _Underway] = {}
        self._planned_on: dict[RunId, TableView] = {}
        self._sizes: dict[RunId, int] = {}

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that wait for a permit, each with what it waits for."""
        return {run: request.waits_for for run, request in list(self._open.items())}

    def at(self, step: Step) -> set[RunId]:
        """Return the runs that wait for the permit of a step."""
        return {run for run, request in list(self._open.items()) if request.step is step}

    def asked(self, run: Run, request: Asked) -> None:
        """Take a request. `review` answers it. The step before it has ended."""
        if request.plan is not None and run.instant != request.plan.instant:
            # Stored before any further permit: after a crash the row must name the instant of the run.
            self._active_runs.progress(run, instant=request.plan.instant)
            points.reach(Point.STORED, run=run.id, service=run.service)
        self._underway.pop(run.id, None)
        if request.plan is not None and request.plan.bytes is not None:
            self._sizes[run.id] = request.plan.bytes
        now = self._clock.monotonic()
        self._open[run.id] = _OpenRequest(
            step=request.step, plan=request.plan, asked_at=now, mark=self._observations.mark(), marked_at=now
        )

    def left(self, run: Run) -> str | None:
        """Forget the request of a run that has left its worker. Return why we cancelled its step, or None."""
        self._open.pop(run.id, None)
        step = self._underway.get(run.id)
        return None if step is None else step.overdue

    def size(self, run: RunId) -> int | None:
        """Return how many bytes a run that is not settled had to rewrite, if the run has said that."""
        return self._sizes.get(run)

    def ended(self, run: Run) -> TableView | None:
        """Forget a run that was settled. Return the view on which its plan was granted: it may not have seen more."""
        self._open.pop(run.id, None)
        self._underway.pop(run.id, None)
        self._sizes.pop(run.id, None)
        return self._planned_on.pop(run.id, None)

    def reject(self, run: Run, late: SupersededError, *, step: Step | None = None) -> None:
        """Let go of a run with a lease that another replica has. That replica settles it, and its worker is told to
        stop.
        """
        log.warning("late_result_rejected", run=run.id, error=str(late))
        self.ended(run)
        pool = self._pool_of(run)  # forgotten with the run
        self._active_runs.let_go(run)
        self._listener.rejected(run, str(late))
        if pool is None:  # no worker of this daemon has it
            return
        if step is None:  # the step that the worker may be taking is not ours any more
            pool.cancel(run.id, str(late))
        else:
            pool.answer(run.id, step, Refused(reason=str(late)))

    def abandon(self) -> None:
        """Forget every request and every step, because the workers are gone."""
        self._open.clear()
        self._underway.clear()
        self._planned_on.clear()
        self._sizes.clear()

    def review(self) -> None:
        """Judge every open request with a new observation of its table, and cancel the steps that hang."""
        for run_id, request in list(self._open.items()):
            run = self._active_runs.get(run_id)
            if run is None or self._clock.monotonic() < request.rests_until:
                continue
            try:
                self._judge(run, request)
            except SupersededError as late:
                self.reject(run, late, step=request.step)
            except LakewardenError:
                raise  # the store
            except Exception as bug:  # the failure of one table must not end the daemon
                log.exception("permit_not_judged", run=run.id, table=run.table, service=run.service)
                self._without_an_observation(run, request, UnknownError.unforeseen(bug))
        for run_id, step in list(self._underway.items()):
            run = self._active_runs.get(run_id)
            pool = None if run is None else self._pool_of(run)
            if run is None or pool is None or run.state not in UNDER_WAY or step.overdue is not None:
                continue
            overdue = step.why_overdue(self._clock.monotonic(), pool.advanced_at(run_id))
            if overdue is not None:
                log.warning("step_overdue", run=run.id, table=run.table, service=run.service, step=step.step)
                self._underway[run.id] = replace(step, overdue=overdue)
                pool.cancel(run.id, overdue)

    def _judge(self, run: Run, request: _OpenRequest) -> None:
        waited = timedelta(seconds=self._clock.monotonic() - request.asked_at)
        try:
            context = self._permit_contexts.of(run, request.step, request.plan, since=request.mark, anew=request.anew)
        except LakewardenError as unreadable:
            self._without_an_observation(run, request, unreadable)
            return
        if context is None:
            return  # its table is being read, and that ends within a bounded time
        permit = judge(PermitRequest(run=run, step=request.step, plan=request.plan, waited=waited), context)
        if isinstance(permit, Granted) and not self._observations.read_since(run.table, request.mark):
            self._open[run.id] = replace(self._again(request, rest=0.0), anew=True)  # only time has changed the answer
            return
        match permit:
            case Wait():
                took = self._clock.monotonic() - request.marked_at
                rest = min(took, LONGEST_REST_SECONDS) if took > QUICK_OBSERVATION_SECONDS else 0.0
                self._open[run.id] = self._again(replace(request, waits_for=permit.reason, anew=False), rest=rest)
                if permit.reason != request.waits_for:
                    self._listener.permit(run, request.step, permit, waited)
            case Granted() | Refused():
                self._learn(run, request, permit, context)
                self._answer(run, request, permit, waited)
            case _:
                assert_never(permit)

    def _without_an_observation(self, run: Run, request: _OpenRequest, error: LakewardenError) -> None:
        """Wait until the table can be read again, if the run may wait.

        After an unexpected error the table is not read again at once, because such a reading may have ended a process.
        """
        waited = timedelta(seconds=self._clock.monotonic() - request.asked_at)
        may_wait = request.step is Step.PLAN or not SERVICES[run.service].yields
        if may_wait and waited < self._limits.max_wait_to_commit:
            rest = UNREADABLE_REST_SECONDS if isinstance(error, UnknownError) else 0.0
            self._open[run.id] = self._again(replace(request, waits_for=str(error)), rest=rest)
            return
        self._answer(run, request, Refused(reason=str(error)), waited)

    def _again(self, request: _OpenRequest, *, rest: float) -> _OpenRequest:
        """Return the request for its next judgement: after a rest of so many seconds, by what is read from then on."""
        now = self._clock.monotonic()
        return replace(request, mark=self._observations.mark(), marked_at=now + rest, rests_until=now + rest)

    def _learn(self, run: Run, request: _OpenRequest, permit: Granted | Refused, context: PermitContext) -> None:
        if request.step is Step.PLAN:
            self._planned_on[run.id] = context.view
        if request.plan is not None and context.unapproved is not None and permit == Refused(reason=context.unapproved):
            self._approvals.ask(self._tables[run.table], run, request.plan, context.view)

    def _answer(self, run: Run, request: _OpenRequest, permit: Granted | Refused, waited: timedelta) -> None:
        if isinstance(permit, Granted):
            state, begun = (
                (RunState.COMMITTING, _deletion(run, request)) if request.step is Step.COMMIT else (None, None)
            )
            run = self._active_runs.progress(run, step=request.step, state=state, figures=begun)
            if not self._permit_contexts.holds_lease():
                return  # the store took long, and its answer came after the end of our lease: the next one is a refusal
            if request.step is Step.COMMIT:
                points.reach(Point.PERMITTED, run=run.id, service=run.service)
            if request.step is Step.COMMIT and request.plan is not None:
                self._approvals.spend(self._tables[run.table], run, request.plan)
        del self._open[run.id]  # not before: if the store fails, the request stays open
        if isinstance(permit, Granted) and permit.expires is None:
            timeouts = self._limits.timeouts(run.service, request.plan)
            self._underway[run.id] = _Underway(step=request.step, since=self._clock.monotonic(), timeouts=timeouts)
        self._listener.permit(run, request.step, permit, waited)
        pool = self._pool_of(run)
        if pool is not None:  # else no worker of this daemon has it
            pool.answer(run.id, request.step, permit)

    def _pool_of(self, run: Run) -> Pool | None:
        """Return the pool with the worker that has the run."""
        profile = self._active_runs.profile_of(run)
        return None if profile is None else self._pools[profile]


def _deletion(run: Run, request: _OpenRequest) -> Mapping[str, int] | None:
    """Return what a run may delete from now on, or None if it deletes nothing.

    This is in the row of the run before the run may begin. If the run fails halfway, or its worker or the daemon is
    killed, the deleted files can no longer be counted.
    """
    plan = request.plan
    if plan is None or not SERVICES[run.service].deletes:
        return None
    planned = {"files_to_delete": plan.files_to_delete, "partitions_to_delete": plan.partitions_to_delete}
    return {key: number for key, number in planned.items() if number} or None
