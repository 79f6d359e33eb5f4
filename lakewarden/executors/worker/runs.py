"""One run inside a worker: its questions, the answers to them, and its cancellation."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
from collections.abc import Callable, Generator, Hashable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple, assert_never

import structlog
from pydantic import ValidationError

from lakewarden.executors import points
from lakewarden.executors.contract import (
    Asked,
    Assignment,
    Ended,
    Failed,
    FailureKind,
    Granted,
    NothingToDo,
    Outcome,
    Plan,
    Program,
    Refused,
    RunProgress,
    StagesDone,
    Started,
    Succeeded,
    Yielded,
)
from lakewarden.executors.edge import edge
from lakewarden.executors.points import Point
from lakewarden.executors.pool.supervision import Allowance
from lakewarden.executors.protocol import Cancel, FromWorker, PermitAnswer
from lakewarden.executors.worker.session import Session
from lakewarden.executors.worker.stages import RunStages
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import NotYetError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.model.printable import without_credentials
from lakewarden.planners.ports import Storage

# The order of every run: permit to plan, plan, permit to execute, execute, permit to commit, commit.

log = structlog.get_logger(__name__)


class StepRequest(NamedTuple):
    """The step for which a run asks a permit, and what it is going to do (None before planning)."""

    step: Step
    plan: Plan | None


RunSteps = Generator[StepRequest, Granted | Refused, Outcome]


def carry_out(
    program: Program,
    session: Any,
    assignment: Assignment,
    storage: Storage,
    ask: Callable[[Step, Plan | None], Granted | Refused],
    *,
    clock: Clock | None = None,
) -> Outcome:
    """Carry out one run and return its outcome. `ask` blocks until its step is granted or refused."""
    run_steps = steps_of(program, session, assignment, storage, clock=clock)
    request = next(run_steps)
    while True:
        try:
            request = run_steps.send(ask(*request))
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def steps_of(
    program: Program, session: Any, assignment: Assignment, storage: Storage, *, clock: Clock | None = None
) -> RunSteps:
    """Yield each question, receive its permit, take the step. Return the outcome, whatever error is raised.

    A refusal leaves the program's `with` block by an exception, so that a program can tell an abort from a normal end.
    A success reports the duration of each step (`plan_seconds`, ...). The table's lock is held within planning and
    committing. So these figures are upper bounds for the time that writers had to wait for the lock.
    """
    step, committed = Step.PLAN, False
    at = functools.partial(points.reach, run=assignment.run, service=assignment.service)
    watch = _Stopwatch(clock or SystemClock())
    try:
        _require((yield StepRequest(Step.PLAN, None)))
        with program.open(session, assignment, storage) as steps:
            with watch.measures(Step.PLAN):
                plan = steps.plan()
            if plan is None:
                return NothingToDo(reason="the format found nothing to plan")
            if isinstance(plan, NothingToDo):
                return plan
            at(Point.PLANNED)
            _require((yield StepRequest(Step.EXECUTE, plan)))
            step = Step.EXECUTE
            at(Point.EXECUTING)
            with watch.measures(Step.EXECUTE), points.watched(Step.EXECUTE, plan, assignment):
                steps.execute(plan)
            at(Point.EXECUTED)
            _require((yield StepRequest(Step.COMMIT, plan)))
            step = Step.COMMIT
            with watch.measures(Step.COMMIT), points.watched(Step.COMMIT, plan, assignment):
                figures = steps.commit(plan)
            committed = True
            at(Point.COMMITTED)
        return Succeeded(figures={**_rewritten(plan), **figures, **watch.figures})
    except _LeaveRefused as refused:
        return Yielded(reason=str(refused))
    except NotYetError as nothing:
        return NothingToDo(reason=str(nothing), again=nothing.delay)
    except YieldError as yielded:
        return Yielded(reason=str(yielded), delay=yielded.delay)
    except Exception as error:  # the edge of a run: every error becomes an outcome
        log.exception("run_failed", run=assignment.run, table=assignment.table, step=step)
        return _failure(error, step=step, committed=committed)


def _rewritten(plan: Plan) -> dict[str, int]:
    """Return the bytes of the files that a plan rewrites, if it says them. A program that knows better replaces it."""
    return {} if plan.bytes is None else {"bytes_rewritten": plan.bytes}


class _Stopwatch:
    """Measures steps, without the time for which they waited for their permits."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.figures: dict[str, float] = {}

    @contextlib.contextmanager
    def measures(self, step: Step) -> Iterator[None]:
        """Keep the duration of the `with` block as the figure `<step>_seconds`."""
        began = self._clock.monotonic()
        yield
        self.figures[f"{step}_seconds"] = round(self._clock.monotonic() - began, 3)


class _LeaveRefused(Exception):  # noqa: N818 - not an error: it leaves the program's `with` block after a refusal
    """A permit was refused."""


def _require(permit: Granted | Refused) -> None:
    """Raise _LeaveRefused for a refusal."""
    match permit:
        case Granted():
            return
        case Refused(reason=reason):
            raise _LeaveRefused(reason)
        case _:
            assert_never(permit)


def _failure(error: Exception, *, step: Step, committed: bool) -> Failed:
    """Return the failure for `error`.

    After the commit permit was granted, only errors that a program has named on purpose are trusted. Any other error
    may come after the commit, and only the timeline tells.
    """
    reason = without_credentials(str(error)) or type(error).__name__
    match error:
        case _ if committed:
            return Failed(kind=FailureKind.UNKNOWN, reason=reason, step=step)
        case ValidationError() if step is Step.PLAN:
            return Failed(kind=FailureKind.PERMANENT, reason=_invalid(error), step=step)
        case UnknownError():
            return Failed(kind=FailureKind.UNKNOWN, reason=reason, step=step)
        case TemporaryError():
            return Failed(kind=FailureKind.TEMPORARY, reason=reason, step=step, delay=error.delay)
        case PermanentError():
            return Failed(kind=FailureKind.PERMANENT, reason=reason, step=step)
        case _:
            kind = FailureKind.UNKNOWN if step is Step.COMMIT else FailureKind.TEMPORARY
            return Failed(kind=kind, reason=f"{type(error).__name__}: {reason}", step=step)


def _invalid(error: ValidationError) -> str:
    """Return which options are wrong, and why, without the lengthy text of pydantic."""
    wrong = (f"{'.'.join(map(str, detail['loc']))}: {detail['msg']}" for detail in error.errors(include_url=False))
    return f"the options are invalid: {'; '.join(wrong)}"


# Until when a worker may live: until the moment that the daemon sent last.

_LOOK_EVERY_SECONDS = 0.2
"""A waiting thread uses a clock that stands still while the machine is suspended. So it must not wait for long at a
time."""


class Lifetime:
    """The moment at which the daemon's right to act on its tables ends. Any thread may use it.

    Without a moment there is no limit. The daemon sends the first one as soon as it has begun. No moment counts before
    the session is up (`bind`): until then nothing can be damaged, and frames may be read late.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: float | None = None
        self._bound = False

    def bind(self) -> None:
        """Let the moment count from now on."""
        self._bound = True

    @property
    def is_over(self) -> bool:
        """Whether the moment is over. Then nothing may be begun, sent or committed any more."""
        return self._bound and self._until is not None and self._clock.monotonic() >= self._until

    @property
    def until(self) -> float | None:
        """The moment, in seconds of the machine's monotonic clock. None while there is no limit."""
        return self._until

    def extend(self, until: float) -> bool:
        """Set the moment to `until`, unless a later one was set. If it comes too late, return False and change
        nothing.
        """
        if self.is_over:
            return False
        self._until = until if self._until is None else max(self._until, until)
        return True

    def watch(self, end: Callable[[], object]) -> None:
        """Call `end` when the moment is over. The calling thread does nothing else."""
        threading.Thread(target=self._watch, args=(end,), name="lifetime", daemon=True).start()

    def _watch(self, end: Callable[[], object]) -> None:
        pause = threading.Event()
        while not self.is_over:
            pause.wait(_LOOK_EVERY_SECONDS)
        end()


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
        log.info("run_begins", jvm_pid=session.jvm_pid)
        with session.for_run(run, self.assignment.session_conf) as spark:
            outcome = carry_out(program, spark, self.assignment, storage, self._ask)
        if isinstance(outcome, Failed):
            session.ping()
        self._step_ended()
        if isinstance(outcome, Succeeded) and (used := stages.done(at_the_end=True)) is not None and used.jobs:
            outcome = replace(outcome, figures={"core_seconds": used.core_seconds, **outcome.figures})
        log.info("run_ends", outcome=type(outcome).__name__, reason=getattr(outcome, "reason", None))
        self._ended.set()
        points.forget(run)
        self._tell(Ended(run=run, outcome=self._seen_by_who_cancelled(outcome)))

    def answer(self, answer: PermitAnswer) -> None:
        """Pass the daemon's answer to the waiting thread."""
        self._heard.put(answer)

    def cancel(self, cancel: Cancel, session: Session) -> None:
        """Refuse the next step, and cancel the run's Spark jobs until it has ended. Returns at once."""
        if self._cancelled is None:
            self._cancelled = cancel.reason
            if not self._ended.is_set():
                points.note(self.assignment.run)
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
            self._allowed = Allowance(
                granted_at=self._clock.monotonic(), expires=permit.expires + _LATER, at_most=permit.at_most
            )
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
