"""The permit queue: from a run's question, through its waiting, to the end of the step that it may take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors.contract import Asked, Granted, Plan, Pool, Refused, Step, Wait
from lakewarden.executors.faultpoints import FAULTS, Point
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, UnknownError
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.services import SERVICES
from lakewarden.planners.settings import format_duration
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.permits import Circumstances, Limits, Patience, Question, judge
from lakewarden.service.scheduling.permit_context import PermitContexts
from lakewarden.service.state.active_runs import UNDER_WAY, ActiveRuns
from lakewarden.service.state.approvals import Approvals
from lakewarden.service.state.moments import Moments
from lakewarden.service.store.port import SupersededError

log = structlog.get_logger(__name__)

QUICK_LOOK_SECONDS = 0.1
LONGEST_REST_SECONDS = 5.0
"""A question whose look took longer than a tenth of a second rests as long, but no longer than this: waiting on a table
with hundreds of thousands of files must not keep a core busy."""

UNREADABLE_REST_SECONDS = 5.0
"""A table whose reading failed for a reason that nobody foresaw is not read again for a question before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Open:
    """A question that has not been answered yet. It is judged by what is read since `mark`, which was set at
    `marked_at`, and not before `rests_until` (monotonic times). One that was judged by now and waits is judged again by
    a table that still stands by its token, and so not `anew`.
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
    """A step that was granted without an expiry of its own; `overdue` says why it was cancelled."""

    step: Step
    since: float
    patience: Patience
    overdue: str | None = None

    def why_overdue(self, now: float, advanced_at: float | None) -> str | None:
        """Return why it is to be cancelled now; `advanced_at` is when a Spark task of the run was last seen to end."""
        moved = advanced_at is not None and advanced_at > self.since
        if now - self.since >= self.patience.whole.total_seconds():
            return f"its step {self.step} did not end within {format_duration(self.patience.whole)}"
        if now - (advanced_at if moved and advanced_at else self.since) < self.patience.still.total_seconds():
            return None
        still = format_duration(self.patience.still)
        if moved:
            return f"its step {self.step} stood still for {still}, none of its Spark tasks ending"
        return f"its step {self.step} did not end within {still}"


class PermitQueue:
    """Holds the questions that are open and the steps that are being taken. Only the control thread changes it."""

    def __init__(
        self,
        *,
        tables: Mapping[TableId, Table],
        pools: Mapping[str, Pool],
        book: ActiveRuns,
        surroundings: PermitContexts,
        approvals: Approvals,
        clock: Clock,
        listener: Listener,
        limits: Limits,
        moments: Moments,
    ) -> None:
        self._tables = tables
        self._moments = moments
        self._book = book
        self._surroundings = surroundings
        self._approvals = approvals
        self._pools = pools
        self._clock = clock
        self._listener = listener
        self._limits = limits
        self._open: dict[RunId, _Open] = {}
        self._underway: dict[RunId, _Underway] = {}
        self._planned_on: dict[RunId, TableView] = {}
        self._sizes: dict[RunId, int] = {}

    def waiting(self) -> Mapping[RunId, str]:
        """Return the runs that stand at a question, each with what it waits for."""
        return {run: question.waits_for for run, question in list(self._open.items())}

    def at(self, step: Step) -> set[RunId]:
        """Return the runs that stand at the question for a step."""
        return {run for run, question in list(self._open.items()) if question.step is step}

    def asked(self, run: Run, asked: Asked) -> None:
        """Take a question; `review` answers it. The step before it has ended."""
        if asked.plan is not None and run.instant != asked.plan.instant:
            # Stored before any further permit: after a crash the row must name the instant it is about.
            self._book.progress(run, instant=asked.plan.instant)
            FAULTS.reach(Point.STORED, run=run.id, service=run.service)
        self._underway.pop(run.id, None)
        if asked.plan is not None and asked.plan.bytes is not None:
            self._sizes[run.id] = asked.plan.bytes
        now = self._clock.monotonic()
        self._open[run.id] = _Open(
            step=asked.step, plan=asked.plan, asked_at=now, mark=self._moments.mark(), marked_at=now
        )

    def left(self, run: Run) -> str | None:
        """Forget the question of a run whose worker is done with it; return why we cancelled its step, if we did."""
        self._open.pop(run.id, None)
        step = self._underway.get(run.id)
        return None if step is None else step.overdue

    def size(self, run: RunId) -> int | None:
        """Return how many bytes a run that has not been settled had to rewrite, as far as it told us."""
        return self._sizes.get(run)

    def ended(self, run: Run) -> TableView | None:
        """Forget a run that was settled; return the view on which it had leave to plan: it may not have seen more."""
        self._open.pop(run.id, None)
        self._underway.pop(run.id, None)
        self._sizes.pop(run.id, None)
        return self._planned_on.pop(run.id, None)

    def disown(self, run: Run, late: SupersededError, *, asked: Step | None = None) -> None:
        """Let go of a run whose lease somebody else has: its story is theirs to tell, its worker is sent home."""
        log.warning("late_result_rejected", run=run.id, error=str(late))
        self.ended(run)
        self._book.let_go(run)
        self._listener.rejected(run, str(late))
        if asked is None:
            # The step that it may be taking is not ours any more. What an earlier life left may have no pool by now.
            profile = self._tables[run.table].profile_of(run.service)
            if profile in self._pools:
                self._pools[profile].cancel(run.id, str(late))
        else:
            self._pool_of(run).answer(run.id, asked, Refused(reason=str(late)))

    def forsake(self) -> None:
        """Forget every question and every step: the workers are gone."""
        self._open.clear()
        self._underway.clear()
        self._planned_on.clear()
        self._sizes.clear()

    def review(self) -> None:
        """Judge every open question whose table was looked at since it was asked, or judged last; end the steps that
        hang.
        """
        for run_id, question in list(self._open.items()):
            run = self._book.get(run_id)
            if run is None or self._clock.monotonic() < question.rests_until:
                continue
            try:
                self._judge(run, question)
            except SupersededError as late:
                self.disown(run, late, asked=question.step)
        for run_id, step in list(self._underway.items()):
            run = self._book.get(run_id)
            if run is None or run.state not in UNDER_WAY or step.overdue is not None:
                continue
            overdue = step.why_overdue(self._clock.monotonic(), self._pool_of(run).advanced_at(run_id))
            if overdue is not None:
                self._cancel(run, step, overdue)

    def _cancel(self, run: Run, step: _Underway, reason: str) -> None:
        log.warning("step_overdue", run=run.id, table=run.table, service=run.service, step=step.step)
        self._underway[run.id] = replace(step, overdue=reason)
        self._pool_of(run).cancel(run.id, reason)

    def _judge(self, run: Run, question: _Open) -> None:
        waited = timedelta(seconds=self._clock.monotonic() - question.asked_at)
        try:
            around = self._surroundings.of(run, question.step, question.plan, since=question.mark, anew=question.anew)
        except LakewardenError as unreadable:
            self._without_a_look(run, question, unreadable, waited)
            return
        if around is None:
            return  # its table is being read, and who reads is bound to answer
        permit = judge(Question(run=run, step=question.step, plan=question.plan, waited=waited), around)
        if isinstance(permit, Granted) and not self._surroundings.were_read(run, since=question.mark):
            self._open[run.id] = replace(
                self._again(question, rest=0.0), anew=True
            )  # time alone has changed the answer
            return
        match permit:
            case Wait():
                took = self._clock.monotonic() - question.marked_at
                rest = min(took, LONGEST_REST_SECONDS) if took > QUICK_LOOK_SECONDS else 0.0
                self._open[run.id] = self._again(replace(question, waits_for=permit.reason, anew=False), rest=rest)
                if permit.reason != question.waits_for:
                    self._listener.permit(run, question.step, permit, waited)
            case Granted() | Refused():
                self._learn(run, question, permit, around)
                self._answer(run, question, permit, waited)
            case _:
                assert_never(permit)

    def _without_a_look(self, run: Run, question: _Open, trouble: LakewardenError, waited: timedelta) -> None:
        """Wait until the table can be read again, where the run may wait. A look that nobody knows the end of may have
        ended a process: it is not made again at once.
        """
        may_wait = question.step is Step.PLAN or not SERVICES[run.service].yields
        if may_wait and waited < self._limits.commit_patience:
            rest = UNREADABLE_REST_SECONDS if isinstance(trouble, UnknownError) else 0.0
            self._open[run.id] = self._again(replace(question, waits_for=str(trouble)), rest=rest)
            return
        self._answer(run, question, Refused(reason=str(trouble)), waited)

    def _again(self, question: _Open, *, rest: float) -> _Open:
        """Return the question as it is judged next: after a rest of so many seconds, by what is read from then on."""
        now = self._clock.monotonic()
        return replace(question, mark=self._moments.mark(), marked_at=now + rest, rests_until=now + rest)

    def _learn(self, run: Run, question: _Open, permit: Granted | Refused, around: Circumstances) -> None:
        if question.step is Step.PLAN:
            self._planned_on[run.id] = around.view
        if question.plan is not None and around.unapproved is not None and permit == Refused(reason=around.unapproved):
            self._approvals.ask(self._tables[run.table], run, question.plan)

    def _answer(self, run: Run, question: _Open, permit: Granted | Refused, waited: timedelta) -> None:
        if isinstance(permit, Granted):
            state, begun = (
                (RunState.COMMITTING, _deletion(run, question)) if question.step is Step.COMMIT else (None, None)
            )
            run = self._book.progress(run, step=question.step, state=state, figures=begun)
            if question.step is Step.COMMIT:
                FAULTS.reach(Point.PERMITTED, run=run.id, service=run.service)
            if question.step is Step.COMMIT and question.plan is not None:
                self._approvals.spend(self._tables[run.table], run, question.plan)
        del self._open[run.id]  # not before: a question that the store could not note stays open
        if isinstance(permit, Granted) and permit.expires is None:
            patience = self._limits.patience(run.service, question.plan)
            self._underway[run.id] = _Underway(step=question.step, since=self._clock.monotonic(), patience=patience)
        self._listener.permit(run, question.step, permit, waited)
        self._pool_of(run).answer(run.id, question.step, permit)

    def _pool_of(self, run: Run) -> Pool:
        return self._pools[self._tables[run.table].profile_of(run.service)]


def _deletion(run: Run, question: _Open) -> Mapping[str, int] | None:
    """Return what a run may delete from now on; None for one that deletes nothing.

    It is in the run's row before it may begin: should it fail half-way, or its worker or the daemon be killed, nobody
    can count any more what has gone.
    """
    plan = question.plan
    if plan is None or not SERVICES[run.service].deletes:
        return None
    planned = {"files_to_delete": plan.files_to_delete, "partitions_to_delete": plan.partitions_to_delete}
    return {key: number for key, number in planned.items() if number} or None
