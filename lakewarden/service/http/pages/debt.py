"""Curves of what had piled up, on the pages of the fleet and of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from markupsafe import Markup

from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.http.history.debt import DebtPointBody, debt_series
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.reporting.picture.axis import TimeRange
from lakewarden.service.reporting.picture.curves import (
    CurvePoint,
    Mark,
    Quantity,
    curve,
    of_bytes,
    of_counts,
    of_seconds,
    thinned,
)

DEBT_SPANS: Mapping[str, timedelta] = {
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
"""The lengths of curves that one can choose, by their names."""

SHORTEST = timedelta(hours=1)
"""Points are a minute apart. A shorter curve shows little."""

_CURVES: Sequence[tuple[Quantity, Callable[[DebtPointBody], float]]] = (
    (of_bytes("Bytes to rewrite"), lambda point: point.bytes),
    (of_counts("Files to rewrite"), lambda point: point.files),
    (of_counts("Commits since the services ran"), lambda point: point.commits),
    (of_counts("Pending plans"), lambda point: point.pending),
    (of_seconds("Age of the oldest pending plan"), lambda point: point.oldest_pending_seconds or 0.0),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownCurve:
    """A curve, its name, and its last value in words. `last` is None if nothing was measured."""

    name: str
    last: str | None
    picture: Markup


def debt_curves(
    plane: ControlPlane, table: TableId | None, *, until: datetime, span: timedelta, runs: Iterable[Run] = ()
) -> Sequence[ShownCurve]:
    """Return the curves of a table, or of all tables (None), on which the ends of `runs` are marked.

    Raises TemporaryError if the store does not answer.
    """
    until = until.replace(second=0, microsecond=0)  # points lie on minutes
    found = debt_series(plane, table, since=until - span, until=until, by=None)
    window, step = TimeRange(begin=found.since, end=found.until), timedelta(seconds=found.step_seconds)
    measured = [point for one in found.series for point in one.points]
    marks = [
        Mark(at=run.ended_at, title=f"{run.service} succeeded at {run.ended_at:%Y-%m-%d %H:%M:%S} UTC")
        for run in runs
        if run.ended_at is not None and run.state is RunState.SUCCEEDED
    ]
    return [
        _shown(quantity, [CurvePoint(at=one.at, value=value(one)) for one in measured], window, step, marks)
        for quantity, value in _CURVES
    ]


def _shown(
    quantity: Quantity, points: Sequence[CurvePoint], window: TimeRange, step: timedelta, marks: Sequence[Mark]
) -> ShownCurve:
    drawn, apart = thinned(points, step=step)
    return ShownCurve(
        name=quantity.name,
        last=quantity.written(points[-1].value) if points else None,
        picture=Markup(curve(quantity, drawn, window, step=apart, marks=marks)),  # noqa: S704 - it escapes
    )
