"""The Spark stages of a run, read from Spark's own status store."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import structlog
from py4j.protocol import Py4JError, Py4JJavaError

from lakewarden.executors.contract import StagesDone
from lakewarden.planners.model.instant import RunId

log = structlog.get_logger(__name__)

STAGES_AT_ONCE = 60
"""So many stages are read at a time. A run with more is shown a moment later."""

LISTENED_WITHIN_MS = 2000
"""How long the end of a run waits until Spark has counted its last tasks."""

_SUMMED = ("stages", "tasks", "tasks_active", "tasks_done", "tasks_failed", "bytes_read", "bytes_written")
_OVER = frozenset({"COMPLETE", "FAILED", "SKIPPED"})


class RunStages:
    """The stages of one run. A stage that is over is read once. Two threads may ask.

    Hudi and Spark put jobs into groups of their own. The tag of the run stays with all of them.
    """

    def __init__(self, context: Any, run: RunId) -> None:
        """`context` is Spark's own context, in the JVM."""
        self._context = context
        self._run = run
        self._lock = threading.Lock()
        self._over: dict[int, StagesDone] = {}
        self._finished_jobs: set[int] = set()
        self._stages: dict[int, int] = {}  # the stages that were seen, each with its job

    def done(self, *, at_the_end: bool = False) -> StagesDone | None:
        """Return the stages so far, or None if Spark does not tell them.

        `at_the_end` waits for a moment until Spark has counted what has ended.
        """
        try:
            with self._lock:
                if at_the_end:
                    with contextlib.suppress(Py4JJavaError):  # other runs keep Spark busy: some tasks may be missing
                        self._context.listenerBus().waitUntilEmpty(LISTENED_WITHIN_MS)
                return self._read()
        except (Py4JError, OSError) as untold:  # `ping` tells whether the JVM is alive
            log.warning("stages_unreadable", run=self._run, error=str(untold)[:500])
            return None

    def _read(self) -> StagesDone:
        tracker, store = self._context.statusTracker(), self._context.statusStore()
        jobs = set(tracker.getJobIdsForTag(self._run))
        at_work = jobs.intersection(tracker.getActiveJobIds())
        for job in sorted(jobs - self._finished_jobs):
            info = tracker.getJobInfo(job)
            if info.isDefined():
                self._stages.update(dict.fromkeys(info.get().stageIds(), job))
        self._finished_jobs |= jobs - at_work
        under_way: list[StagesDone] = []
        for stage in [key for key in self._stages if key not in self._over][:STAGES_AT_ONCE]:
            figures = _stage(store, stage) or StagesDone()
            if figures.stages_done or self._stages[stage] in self._finished_jobs:  # a job may end before a stage begins
                self._over[stage] = figures
            else:
                under_way.append(figures)
        return _together(len(jobs), [*self._over.values(), *under_way])


def _stage(store: Any, stage: int) -> StagesDone | None:
    """Return one stage as a sum of one. None if Spark does not know it (any more)."""
    try:
        data = store.lastStageAttempt(stage)
    except Py4JJavaError:  # NoSuchElementException
        return None
    status = data.status().name()
    if status == "SKIPPED":
        return StagesDone(stages_done=1)
    return StagesDone(
        stages=1,
        stages_done=int(status in _OVER),
        tasks=data.numTasks(),
        tasks_active=data.numActiveTasks(),
        tasks_done=data.numCompleteTasks(),
        tasks_failed=data.numFailedTasks(),
        bytes_read=data.inputBytes(),
        bytes_written=data.outputBytes(),
        core_seconds=data.executorRunTime() / 1000,
        stage=data.name() if status == "ACTIVE" else None,
    )


def _together(jobs: int, stages: list[StagesDone]) -> StagesDone:
    sums = {name: sum(getattr(part, name) for part in stages) for name in _SUMMED}
    return StagesDone(
        **sums,
        jobs=jobs,
        stages_done=sum(part.stages_done for part in stages if part.stages),
        core_seconds=round(sum(part.core_seconds for part in stages), 3),
        stage=next((part.stage for part in reversed(stages) if part.stage is not None), None),
    )
