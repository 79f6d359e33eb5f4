"""What a run does now, as JSON, with an estimate of its end."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel

from lakewarden.executors.contract import RunProgress
from lakewarden.planners.model.instant import RunId, Step
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.forecast import PAST_RUNS, ends_at, estimate

_REMEMBERED = 256


class EstimatedBy(StrEnum):
    """What an estimate compares."""

    BYTES = "bytes"
    DURATION = "duration"


class EstimateBody(BaseModel):
    """How long a run will probably take, by the median of earlier runs of its service on its table.

    `by` says what is compared: the bytes that were rewritten, or the duration alone. `ends_at` is null if the run takes
    longer than `seconds`.
    """

    seconds: float
    ends_at: datetime | None
    runs: int
    by: EstimatedBy


class ProgressBody(BaseModel):
    """What a run does now, as its worker said it at its last heartbeat. It is not stored.

    `stages` and `tasks` are those of the Spark jobs that have begun: a later job brings more. `stage` is a stage at
    work. `bytes_read` and `bytes_written` do not count what is shuffled. `core_seconds` is how long tasks occupied a
    core. `planned_bytes` and `planned_file_groups` are the size of the plan, if the plan says it.
    """

    step: Step | None
    stage: str | None
    jobs: int
    stages: int
    stages_done: int
    tasks: int
    tasks_active: int
    tasks_done: int
    tasks_failed: int
    bytes_read: int
    bytes_written: int
    core_seconds: float
    planned_bytes: int | None
    planned_file_groups: int | None
    estimate: EstimateBody | None


class ProgressBodies:
    """The progress of runs. The earlier runs are read from the store once for each run. Any thread may call."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._past: OrderedDict[RunId, Sequence[Run]] = OrderedDict()

    def body(self, run: Run, done: RunProgress | None, *, now: datetime) -> ProgressBody | None:
        """Return the progress of a run, or None if its worker said nothing. Raises TemporaryError if the store does
        not answer.
        """
        if done is None or run.state.ended:
            return None
        at = done.done
        return ProgressBody(
            step=done.step,
            stage=at.stage,
            jobs=at.jobs,
            stages=at.stages,
            stages_done=at.stages_done,
            tasks=at.tasks,
            tasks_active=at.tasks_active,
            tasks_done=at.tasks_done,
            tasks_failed=at.tasks_failed,
            bytes_read=at.bytes_read,
            bytes_written=at.bytes_written,
            core_seconds=at.core_seconds,
            planned_bytes=done.bytes,
            planned_file_groups=done.file_groups,
            estimate=self._estimate(run, done, now=now),
        )

    def _estimate(self, run: Run, done: RunProgress, *, now: datetime) -> EstimateBody | None:
        forecast = estimate(self._earlier(run), planned_bytes=done.bytes)
        if forecast is None or run.started_at is None:
            return None
        return EstimateBody(
            seconds=round(forecast.length.total_seconds(), 3),
            ends_at=ends_at(forecast, started_at=run.started_at, now=now),
            runs=forecast.runs,
            by=EstimatedBy.BYTES if forecast.by_size else EstimatedBy.DURATION,
        )

    def _earlier(self, run: Run) -> Sequence[Run]:
        with self._lock:
            runs = self._past.get(run.id)
        if runs is None:
            runs = self._plane.runs(table=run.table, service=run.service, states=(RunState.SUCCEEDED,), limit=PAST_RUNS)
            with self._lock:
                self._past[run.id] = runs
                while len(self._past) > _REMEMBERED:
                    self._past.popitem(last=False)
        return runs
