"""Runs as JSON, with what is known of them only in the daemon that carries them out."""

from __future__ import annotations

from collections.abc import Sequence

from lakewarden.planners.model.clock import Clock
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.live.progress import ProgressBodies
from lakewarden.service.http.schemas import RunBody, run_body
from lakewarden.service.model.run import Run


class LiveRuns:
    """Makes the bodies of runs. Any thread may call. Raises TemporaryError if the store does not answer."""

    def __init__(self, plane: ControlPlane, clock: Clock) -> None:
        self._plane = plane
        self._clock = clock
        self._progress = ProgressBodies(plane)

    def body(self, run: Run) -> RunBody:
        """Return the body of one run."""
        return self.bodies([run])[0]

    def bodies(self, runs: Sequence[Run]) -> list[RunBody]:
        """Return the bodies of runs, in their order."""
        waiting, doing, now = self._plane.waiting(), self._plane.progress(), self._clock.now()
        return [
            run_body(
                run,
                now=now,
                waits_for=waiting.get(run.id),
                progress=self._progress.body(run, doing.get(run.id), now=now),
            )
            for run in runs
        ]
