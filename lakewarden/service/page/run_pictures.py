"""What stored runs did, as pictures: the steps of one run, and the days of many. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, datetime, timedelta
from enum import Enum

from lakewarden.planners.model.instant import Step
from lakewarden.planners.model.printable import counted, span
from lakewarden.service.model.run import Run, RunState

_DAYS = 14
_COLUMN, _GAP, _TALLEST, _TEXT = 24, 4, 72, 16
_WIDTH, _BAR = 336, 18
"""Units of a picture. At its full width one is a pixel, so its text is as large as that of the page."""


class _Ending(Enum):
    """How runs ended, from the bottom of a column to its top."""

    SUCCEEDED = "succeeded"
    STOPPED = "stopped"  # cancelled by a person, or it stepped back for a writer or an approval
    FAILED = "failed"


_ENDINGS = {
    RunState.SUCCEEDED: _Ending.SUCCEEDED,
    RunState.YIELDED: _Ending.STOPPED,
    RunState.CANCELLED: _Ending.STOPPED,
    RunState.FAILED: _Ending.FAILED,
}


def days_drawn(runs: Sequence[Run], now: datetime, *, complete: bool) -> str | None:
    """Return the ended runs by day (UTC) and ending as SVG: the last 14 days, today on the right.

    `runs` are the newest first. If they are not `complete`, the day of the oldest is left out. None if no run ended.
    """
    ended = [(run.ended_at.date(), _ENDINGS[run.state]) for run in runs if run.ended_at and run.state in _ENDINGS]
    first = now.date() - timedelta(days=_DAYS - 1)
    if not complete and runs:
        first = max(first, runs[-1].created_at.date() + timedelta(days=1))
    counts = Counter([(day, ending) for day, ending in ended if day >= first])
    if not counts:
        return None
    days = [now.date() - timedelta(days=back) for back in reversed(range(_DAYS))]
    most = max(sum(counts[day, ending] for ending in _Ending) for day in days)
    columns = "".join(_column(place, day, counts, most) for place, day in enumerate(days))
    totals = [f"{total} {ending.value}" for ending in _Ending if (total := sum(counts[day, ending] for day in days))]
    about = f"Runs of the last {_DAYS} days: {', '.join(totals)}"
    return _svg(_TALLEST + 2 * _TEXT, about, columns)


def _column(place: int, day: date, counts: Mapping[tuple[date, _Ending], int], most: int) -> str:
    left, top, parts = place * _COLUMN, float(_TEXT + _TALLEST), []
    total = sum(counts[day, ending] for ending in _Ending)
    for ending in _Ending:
        count = counts[day, ending]
        height = _TALLEST * count / most
        top -= height
        if count:
            title = f"{day}: {counted(count, 'run')} {ending.value}"
            place_of_part = f'x="{left}" y="{top:.1f}" width="{_COLUMN - _GAP}" height="{height:.1f}"'
            parts.append(f'<rect class="{ending.value}" {place_of_part}><title>{title}</title></rect>')
    middle = left + (_COLUMN - _GAP) / 2
    if total:
        parts.append(f'<text x="{middle:g}" y="{top - 3:.1f}" text-anchor="middle">{total}</text>')
    parts.append(f'<text x="{middle:g}" y="{_TALLEST + 2 * _TEXT - 3}" text-anchor="middle">{day:%d}</text>')
    return "".join(parts)


def steps_drawn(run: Run) -> str | None:
    """Return one bar as SVG: how long the steps of a run took. None if the run does not say it of two steps."""
    seconds = {step: run.figures.get(f"{step}_seconds") for step in Step}
    took = {step: float(length) for step, length in seconds.items() if isinstance(length, int | float)}
    whole = sum(took.values())
    if len(took) < 2 or not whole:
        return None
    left, parts = 0.0, []
    for step, length in took.items():
        width = _WIDTH * length / whole
        place = f'x="{left:.1f}" y="0" width="{width:.1f}" height="{_BAR}"'
        parts.append(f'<rect class="{step}" {place}><title>{step}: {span(length)}</title></rect>')
        left += width
    about = ", ".join(f"{step} {span(length)}" for step, length in took.items())
    return _svg(_BAR, f"The steps took: {about}", "".join(parts))


def _svg(height: float, about: str, inside: str) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height:g}" width="100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{about}">{inside}</svg>'
