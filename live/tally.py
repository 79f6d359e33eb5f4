"""The runs of a scenario, counted by service."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lakewarden.planners.model.instant import Service
from lakewarden.planners.services import SERVICES
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
            cancelled=ended[service, RunState.CANCELLED] + ended[service, RunState.YIELDED],
            idle=idle[service],
        )
        for service in sorted({run.service for run in runs})
    }


def completed_twice(runs: Sequence[RunBody]) -> list[str]:
    """Return the instants that more than one run reports as completed."""
    done = Counter(run.instant for run in runs if run.state == RunState.SUCCEEDED and run.instant)
    return sorted(instant for instant, times in done.items() if times > 1)


def failed(runs: Sequence[RunBody]) -> list[str]:
    """Return the runs that failed, and why: beside healthy writers, none has a reason to."""
    return [f"{run.service} {run.id}: {run.outcome}" for run in runs if run.state == RunState.FAILED]


def late_compactions(runs: Sequence[RunBody]) -> list[str]:
    """Return the compactions that waited in the queue while two other rewrites of the table began, one sentence each,
    and the last of three that ended in a row without success.

    How long a compaction takes is the speed of the machine. How many runs go before it is the daemon's decision.
    """
    in_order = sorted(runs, key=lambda run: run.created_at)
    others = [(run.started_at, run) for run in in_order if run.service in _GIVE_WAY and run.started_at is not None]
    found, without_success = [], 0
    for run in in_order:
        if run.service != Service.COMPACTION:
            continue
        ended = run.started_at or run.ended_at
        first = [other for at, other in others if run.created_at < at and (ended is None or at < ended)]
        if len(first) > 1:
            names = ", ".join(f"{other.service} {other.id}" for other in first)
            found.append(f"compaction {run.id} waited in the queue while these began: {names}")
        without_success = without_success + 1 if run.state in _WITHOUT_SUCCESS else 0
        if without_success == _ROW:
            found.append(f"{_ROW} compactions in a row ended without success, the last one is {run.id}: {run.outcome}")
    return found


_GIVE_WAY = frozenset(service for service, traits in SERVICES.items() if Service.COMPACTION in traits.gives_way_to)
_WITHOUT_SUCCESS = frozenset({RunState.FAILED, RunState.CANCELLED, RunState.YIELDED})
_ROW = 3


def _idle(run: RunBody) -> bool:
    return (run.outcome or "").startswith("nothing to do")
