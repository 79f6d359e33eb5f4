"""When a run will probably end, by the earlier runs of its service on its table. It is shown to people, and decides
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from lakewarden.service.model.run import Run, RunState

PAST_RUNS = 20
"""So many earlier runs are looked at, the newest ones."""

_LONGEST_SECONDS = 10.0 * 365 * 24 * 3600


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEstimate:
    """How long a run will probably take, from its start. `runs` is how many earlier runs say so.

    `by_size`: they were compared by the bytes that they rewrote. Otherwise by their duration alone. `core_seconds` is
    how long its tasks will occupy cores. None if no earlier run says it.
    """

    length: timedelta
    runs: int
    by_size: bool
    core_seconds: float | None = None


def estimate(past: Sequence[Run], *, planned_bytes: int | None) -> RunEstimate | None:
    """Return the estimate for a run that rewrites so many bytes (None: it is not known), or None without earlier runs.

    The median is taken, because a run that waited long for writers says little. A run that found nothing to do says
    nothing, and neither does a dry run.
    """
    lengths = [(length, _bytes(run), _cores(run)) for run in past if (length := _length(run)) is not None]
    if not lengths:
        return None
    rates = [(length.total_seconds() / size, size, cores) for length, size, cores in lengths if size]
    if planned_bytes and rates:
        seconds = min(median(rate for rate, _, _ in rates) * planned_bytes, _LONGEST_SECONDS)
        used = [cores / size for _, size, cores in rates if cores is not None]
        return RunEstimate(
            length=timedelta(seconds=seconds),
            runs=len(rates),
            by_size=True,
            core_seconds=min(median(used) * planned_bytes, _LONGEST_SECONDS) if used else None,
        )
    used = [cores for _, _, cores in lengths if cores is not None]
    return RunEstimate(
        length=timedelta(seconds=median(length.total_seconds() for length, _, _ in lengths)),
        runs=len(lengths),
        by_size=False,
        core_seconds=median(used) if used else None,
    )


def ends_at(estimated: RunEstimate, *, started_at: datetime, now: datetime) -> datetime | None:
    """Return when a run will probably end. None if it takes longer than estimated: then nothing is known."""
    end = started_at + estimated.length
    return end if end > now else None


def _length(run: Run) -> timedelta | None:
    committed = "commit_seconds" in run.figures
    if run.state is not RunState.SUCCEEDED or run.dry_run or not committed:
        return None
    return None if run.started_at is None or run.ended_at is None else run.ended_at - run.started_at


def _bytes(run: Run) -> int | None:
    found = run.figures.get("bytes_rewritten")
    return int(found) if isinstance(found, int | float) and found > 0 else None


def _cores(run: Run) -> float | None:
    found = run.figures.get("core_seconds")
    return float(found) if isinstance(found, int | float) and found >= 0 else None
