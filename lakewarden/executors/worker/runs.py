"""One run inside a worker: its questions, the answers to them, and its cancellation."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable
from dataclasses import replace
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.executors import cancellations
from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Ended,
    Failed,
    Granted,
    Outcome,
    Plan,
    Program,
    Refused,
    Started,
    Succeeded,
    Yielded,
)
from lakewarden.executors.edge import edge
from lakewarden.executors.pool.supervision import Allowance, allowance
from lakewarden.executors.progress import RunProgress, StagesDone
from lakewarden.executors.protocol import Cancel, FromWorker, PermitAnswer
from lakewarden.executors.worker.lifetime import Lifetime
from lakewarden.executors.worker.session import Session
from lakewarden.executors.worker.stages import RunStages
from lakewarden.executors.worker.steps import carry_out
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.step import Step
from lakewarden.planners.ports import Storage

log = structlog.get_logger(__name__)

_CANCEL_AGAIN_SECONDS = 0.25

_LATER = timedelta(seconds=2)
"""The daemon hears of progress a moment after this process. When it finds the worker gone, it must also know that the
permit has expired."""


class WorkerRun:
    """One run. One of the worker's run threads carries it out. The reader thread answers and cancels it.

    `expire` is called if a step has not ended within its permit. It must end the process. If `lifetime` is over, a
    permit is void: the daemon that gave it had no right any more to give it.
    """

    def __init__(
        self,
        assignment: Assignment,
        *,
        tell: Callable[[FromWorker], None],
        expire: Callable[[], None],
        lifetime: Lifetime,
    ) -> None:
        self.assignment = assignment
        self._tell = tell
        self._expire = expire
        self._lifetime = lifetime
        self._clock = SystemClock()
        self._heard: queue.SimpleQueue[PermitAnswer | Cancel] = queue.SimpleQueue()
        self._cancelled: str | None = None
        self._allowed: Allowance | None = None
        self._expiry: threading.Timer | None = None
        self._progress: Hashable = None
        self._step: Step | None = None
        self._plan: Plan | None = None
        self._stages: RunStages | None = None
        self._ended = threading.Event()

    def carry_out(self, program: Program, session: Session, storage: Storage) -> None:
        """Carry the run out, and report its outcome.

        Raises:
            SparkStoppedError: the run has failed, and Spark has stopped its context. No
                later run can succeed in this JVM.
        """
        run = self.assignment.run
        self._tell(Started(run=run, executor=session.executor, application=session.application))
        self._stages = stages = session.stages(run)
        log.info("run_begins", executor=session.executor)
        with session.for_run(run, self.assignment.session_conf) as spark:
            outcome = carry_out(program, spark, self.assignment, storage, self._ask)
        if isinstance(outcome, Failed):
            session.ping()
        self._step_ended()
        if isinstance(outcome, Succeeded) and (used := stages.done(at_the_end=True)) is not None and used.jobs:
            outcome = replace(outcome, figures={"core_seconds": used.core_seconds, **outcome.figures})
        log.info("run_ends", outcome=type(outcome).__name__, reason=getattr(outcome, "reason", None))
        self._ended.set()
        cancellations.forget(run)
        self._tell(Ended(run=run, outcome=self._seen_by_who_cancelled(outcome)))

    def answer(self, answer: PermitAnswer) -> None:
        """Pass the daemon's answer to the waiting thread."""
        self._heard.put(answer)

    def cancel(self, cancel: Cancel, session: Session) -> None:
        """Refuse the next step, and cancel the run's Spark jobs until it has ended. Returns at once."""
        if self._cancelled is None:
            self._cancelled = cancel.reason
            if not self._ended.is_set():
                cancellations.note(self.assignment.run)
            self._heard.put(cancel)
            threading.Thread(target=self._cancel_jobs, args=(session,), name="cancel", daemon=True).start()

    def advances(self, session: Session) -> bool:
        """Whether Spark tasks of the run have ended since the last call. Then a step with a bound on its tasks may
        continue.

        One thread calls it again and again.
        """
        before, now = self._progress, session.progress(self.assignment.run)
        self._progress = before if now is None else now
        advanced = before is not None and self._progress != before
        if advanced and (allowed := self._allowed) is not None:
            allowed.advanced_at = self._clock.monotonic()
        return advanced

    def progress(self) -> RunProgress:
        """Return what the run does now."""
        done = None if self._stages is None else self._stages.done()
        plan = self._plan
        return RunProgress(
            run=self.assignment.run,
            step=self._step,
            bytes=None if plan is None else plan.bytes,
            file_groups=None if plan is None else plan.file_groups,
            done=done or StagesDone(),
        )

    def _cancel_jobs(self, session: Session) -> None:
        """Cancel again and again. Spark cancels only the jobs that are active at that moment."""
        while not self._ended.is_set():
            with edge("jobs_not_cancelled"):
                session.cancel_jobs(self.assignment.run)
            self._ended.wait(_CANCEL_AGAIN_SECONDS)

    def _ask(self, step: Step, plan: Plan | None) -> Granted | Refused:
        self._step_ended()
        if plan is not None and plan.instant is not None:
            structlog.contextvars.bind_contextvars(instant=plan.instant)  # main.py binds it for the time of the run
        if self._cancelled is None:
            self._tell(Asked(run=self.assignment.run, step=step, plan=plan))
        while self._cancelled is None:
            match self._heard.get():
                case PermitAnswer(step=answered, permit=permit):
                    if answered is step:
                        self._step, self._plan = step, plan
                        log.info("permit", step=step.value, answer=type(permit).__name__)
                        return self._taken(permit)
                case Cancel():
                    break
                case never:
                    assert_never(never)
        return Refused(reason=self._cancelled or "cancelled")

    def _taken(self, permit: Granted | Refused) -> Granted | Refused:
        if self._lifetime.is_over:
            return Refused(reason="the permit came after the moment until which the worker may live")
        if isinstance(permit, Granted) and permit.expires is not None:
            self._allowed = allowance(permit.expires + _LATER, permit.at_most, now=self._clock.monotonic())
            self._look_after(self._allowed)
        return permit

    def _look_after(self, allowed: Allowance) -> None:
        """Expire if the allowance is over and its step has not ended. If the allowance was extended, check
        again later.
        """
        left = allowed.ends_at - self._clock.monotonic()
        if allowed is not self._allowed:
            return
        if left <= 0:
            self._expire()
            return
        self._expiry = threading.Timer(left, self._look_after, (allowed,))
        self._expiry.daemon = True
        self._expiry.start()

    def _step_ended(self) -> None:
        self._allowed = None
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _seen_by_who_cancelled(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a cancelled run. If the cancellation has caused its failure, the run has yielded."""
        if self._cancelled is not None and isinstance(outcome, Failed) and outcome.step is not Step.COMMIT:
            return Yielded(reason=self._cancelled)
        return outcome
