"""One run inside a worker: its questions, its answers, and how it is stopped."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import assert_never

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
    Step,
    Yielded,
)
from lakewarden.executors.pool.supervision import Allowance, allowance
from lakewarden.executors.protocol import Answer, Cancel, FromWorker
from lakewarden.executors.worker.lifetime import Lifetime
from lakewarden.executors.worker.session import Session
from lakewarden.executors.worker.steps import carry_out
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.ports import Storage

_CANCEL_AGAIN_SECONDS = 0.25

_LATER = timedelta(seconds=2)
"""The daemon hears of progress a moment later than it is seen here, and is to know an expired permit when it finds the
worker gone."""


class Run:
    """One run: carried out by one of the worker's run threads, answered and cancelled by its reader thread.

    `expire` is called when a step has not ended within its permit: it must end the process. A permit that is found
    when `lifetime` is over is void: whoever gave it had no right any more to let anything be done.
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
        self._heard: queue.SimpleQueue[Answer | Cancel] = queue.SimpleQueue()
        self._cancelled: str | None = None
        self._allowed: Allowance | None = None
        self._expiry: threading.Timer | None = None
        self._progress: Hashable = None
        self._ended = threading.Event()

    def carry_out(self, program: Program, session: Session, storage: Storage) -> None:
        """Carry the run out and tell how it ended."""
        run = self.assignment.run
        self._tell(Started(run=run, executor=session.executor))
        with session.for_run(run, self.assignment.session_conf) as spark:
            outcome = carry_out(program, spark, self.assignment, storage, self._ask)
        self._step_ended()
        self._ended.set()
        self._tell(Ended(run=run, outcome=self._seen_by_who_cancelled(outcome)))

    def answer(self, answer: Answer) -> None:
        """Hand the daemon's answer to the waiting thread."""
        self._heard.put(answer)

    def cancel(self, cancel: Cancel, session: Session) -> None:
        """Refuse the next step, and cancel the run's Spark jobs until it has ended. Returns at once."""
        if self._cancelled is None:
            self._cancelled = cancel.reason
            self._heard.put(cancel)
            threading.Thread(target=self._cancel_jobs, args=(session,), name="cancel", daemon=True).start()

    def advances(self, session: Session) -> bool:
        """Whether Spark tasks of the run have ended since the last call: then a step that is bound by them may go on.

        To be called again and again, by one thread.
        """
        before, now = self._progress, session.progress(self.assignment.run)
        self._progress = before if now is None else now
        advanced = before is not None and self._progress != before
        if advanced and (allowed := self._allowed) is not None:
            allowed.advanced_at = self._clock.monotonic()
        return advanced

    def _cancel_jobs(self, session: Session) -> None:
        """Cancel again and again: Spark cancels the jobs that are active at that moment and no later ones."""
        while not self._ended.is_set():
            session.cancel_jobs(self.assignment.run)
            self._ended.wait(_CANCEL_AGAIN_SECONDS)

    def _ask(self, step: Step, plan: Plan | None) -> Granted | Refused:
        self._step_ended()
        if self._cancelled is None:
            self._tell(Asked(run=self.assignment.run, step=step, plan=plan))
        while self._cancelled is None:
            match self._heard.get():
                case Answer(step=answered, permit=permit):
                    if answered is step:
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
        """Expire when the allowance is over, if its step is still being taken; look again where it was lengthened."""
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
        """Return a failure that our own cancelling brought about as what it is: a run that stepped back."""
        if self._cancelled is not None and isinstance(outcome, Failed) and outcome.step is not Step.COMMIT:
            return Yielded(reason=self._cancelled)
        return outcome
