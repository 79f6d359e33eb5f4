"""The session worker, with a stopwatch on the Hudi calls of every compaction. It prints the measured times."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from lakewarden.executors.contract import Assignment, FormatPrograms, NothingToDo, Plan, Steps
from lakewarden.executors.programs.hudi import compaction
from lakewarden.executors.programs.hudi.client.opened import RunObservations
from lakewarden.executors.programs.hudi.programs import HUDI
from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.executors.worker import main as worker
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import Storage

TIMINGS = "bench timings "
_observations: Any = RunObservations


class Stopwatch:
    """Adds up seconds; time spent in a `break_` does not count."""

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds += time.monotonic() - begun

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.seconds -= time.monotonic() - begun


class TimedSteps:
    """Steps whose calls are timed."""

    def __init__(self, steps: Steps, stopwatch: Stopwatch) -> None:
        self._steps = steps
        self._stopwatch = stopwatch

    def plan(self) -> Plan | NothingToDo | None:
        observe = _observations.observe

        def untimed(*arguments: Any, **named: Any) -> Any:
            with self._stopwatch.paused():
                return observe(*arguments, **named)

        _observations.observe = untimed  # Lakewarden's own check of the plan is no Hudi call
        try:
            with self._stopwatch.running():
                return self._steps.plan()
        finally:
            _observations.observe = observe

    def execute(self, plan: Plan) -> None:
        with self._stopwatch.running():
            self._steps.execute(plan)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        with self._stopwatch.running():
            return self._steps.commit(plan)


class TimedCompaction:
    """Hudi's compaction, timed from opening the client to closing it, without the waits for permits."""

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        stopwatch = Stopwatch()
        bracket = compaction.Compaction().open(session, assignment, storage)
        with stopwatch.running():
            steps = bracket.__enter__()
        try:
            yield TimedSteps(steps, stopwatch)
        except BaseException:
            bracket.__exit__(*sys.exc_info())
            raise
        with stopwatch.running():
            bracket.__exit__(None, None, None)
        print(TIMINGS + json.dumps({"run": assignment.run, "seconds": stopwatch.seconds}), flush=True)


def main() -> None:
    """Run the session worker."""
    timed = FormatPrograms(programs={**HUDI.programs, Service.COMPACTION: TimedCompaction}, release=HUDI.release)
    worker.main(int(sys.argv[1]), programs={**PROGRAMS, "hudi": timed})


if __name__ == "__main__":
    main()
