"""The runs as spans. Nothing is told of a run before it ends, so nothing here waits for anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from lakewarden.executors.contract import Granted, Permit, Refused
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.step import Step
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.heard import HeardHook
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.tracing.causes import Cause, Causes

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPart:
    """A part of a run: its time in the queue, a wait for a permit, or a step."""

    name: str
    begun_at: datetime
    ended_at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class RunTrace:
    """A run that has ended, with its parts in their order, and the hooks that caused it."""

    run: Run
    parts: Sequence[RunPart]
    causes: Sequence[Cause]
    values: dict[str, Value]


@dataclass(kw_only=True, slots=True)
class _Open:
    causes: Sequence[Cause]
    queued_at: datetime | None
    parts: list[RunPart] = field(default_factory=list)
    step: tuple[Step, datetime] | None = None

    def end_step(self, at: datetime) -> None:
        """End the step that goes on, if any."""
        if self.step is not None:
            step, begun_at = self.step
            self.parts.append(RunPart(name=step.value, begun_at=begun_at, ended_at=max(begun_at, at)))
            self.step = None


class RunTraces(Listener):
    """Gathers what happens to runs, and hands each over when it has ended. `ended` must return at once."""

    def __init__(self, clock: Clock, told: Callable[[RunTrace], None]) -> None:
        self._clock = clock
        self._told = told
        self._causes = Causes()
        self._open: dict[RunId, _Open] = {}

    def hook(self, heard: HeardHook) -> None:
        """Note a hook. Any thread may call."""
        self._causes.add(heard, self._clock.now())

    def requested(self, run: Run) -> None:
        """Begin a run, with the hooks since the previous run of its service."""
        causes = self._causes.take(run.table, run.service)
        self._open[run.id] = _Open(causes=causes, queued_at=run.created_at)

    def started(self, run: Run) -> None:
        """End the time in the queue."""
        known, now = self._of(run), self._clock.now()
        if known.queued_at is not None:
            known.parts.append(RunPart(name="queue", begun_at=known.queued_at, ended_at=max(known.queued_at, now)))
            known.queued_at = None

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Note an answer that ends a wait, and the step that begins with it."""
        if not isinstance(permit, Granted | Refused):
            return
        known, now = self._of(run), self._clock.now()
        known.end_step(now - waited)
        known.parts.append(RunPart(name=f"permit {step}", begun_at=now - waited, ended_at=now))
        if isinstance(permit, Granted):
            known.step = (step, now)

    def ended(self, run: Run) -> None:
        """Hand a run over. A run that became UNKNOWN goes on."""
        if run.state is RunState.UNKNOWN:
            return
        known = self._open.pop(run.id, None)
        if known is None:
            return
        known.end_step(run.ended_at or self._clock.now())
        self._told(RunTrace(run=run, parts=known.parts, causes=known.causes, values=_values(run)))

    def adopted(self, run: Run) -> None:
        """Go on with a run of a dead replica. That replica knew its hooks."""
        self._of(run)

    def rejected(self, run: Run, reason: str) -> None:
        """Forget a run that another replica goes on with."""
        self._open.pop(run.id, None)

    def _of(self, run: Run) -> _Open:
        return self._open.setdefault(run.id, _Open(causes=(), queued_at=None))


def _values(run: Run) -> dict[str, Value]:
    """Return what a span says of its run. Figures have their units in their names."""
    told: dict[str, Value | None] = {
        "run": run.id,
        "table": run.table,
        "service": run.service.value,
        "state": run.state.value,
        "reason": run.reason,
        "requested_by": run.requested_by,
        "outcome": run.outcome,
        "instant": run.instant,
        "owner": run.owner,
        "epoch": run.epoch,
        "dry_run": run.dry_run,
        **{f"figures.{name}": value for name, value in run.figures.items()},
    }
    return {f"lakewarden.{name}": value for name, value in told.items() if value is not None}
