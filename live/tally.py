"""The runs of a scenario, counted by service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakewarden.service.http.schemas import RunBody
from lakewarden.service.model.run import RunState
from live.report import LiveServiceTally


def tallies(runs: Sequence[RunBody]) -> dict[str, LiveServiceTally]:
    """Return how the runs of each service ended. A success that found nothing to do counts only as idle."""
    idle = Counter(run.service for run in runs if run.state == RunState.SUCCEEDED and _idle(run))
    ended = Counter((run.service, run.state) for run in runs)
    return {
        service: LiveServiceTally(
            succeeded=ended[service, RunState.SUCCEEDED] - idle[service],
            failed=ended[service, RunState.FAILED],
            cancelled=ended[service, RunState.CANCELLED],
            idle=idle[service],
        )
        for service in sorted({run.service for run in runs})
    }


def completed_twice(runs: Sequence[RunBody]) -> list[str]:
    """Return the instants that more than one run reports as completed."""
    done = Counter(run.instant for run in runs if run.state == RunState.SUCCEEDED and run.instant)
    return sorted(instant for instant, times in done.items() if times > 1)


def _idle(run: RunBody) -> bool:
    return (run.outcome or "").startswith("nothing to do")
