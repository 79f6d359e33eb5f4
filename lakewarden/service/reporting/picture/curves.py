"""Curves over time as SVG. Pure. A time without a measurement is a gap, and no line."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from html import escape

from lakewarden.planners.model.printable import printable
from lakewarden.service.reporting.picture.axis import TimeRange, ticks
from lakewarden.service.reporting.quantities import size, span

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 480, 120, 62, 8, 18
_LINES = 2
"""So many lines are between the axis and the top."""
_TITLES = 60
"""So many places of a curve say their value, if a pointer is there."""
_TITLES_OF_A_MARK = 3
_MOST = 250
"""So many points of a curve are drawn."""
_TICK_WIDTH = 60
_SECONDS = (1, 5, 15, 30, 60, 300, 900, 1800, 3600, 3 * 3600, 12 * 3600, 86400)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """What a curve shows: its name, how a value is written, and the height of the picture for its greatest value."""

    name: str
    written: Callable[[float], str]
    top: Callable[[float], float]


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """A measured value."""

    at: datetime
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Mark:
    """A moment at which something happened that may have changed the curve, and what it was."""

    at: datetime
    title: str


def of_counts(name: str) -> Quantity:
    """Return a quantity that is counted."""
    return Quantity(name=name, written=lambda value: f"{value:,.0f}", top=lambda value: _round_up(max(value, _LINES)))


def of_bytes(name: str) -> Quantity:
    """Return a quantity in bytes."""

    def top(value: float) -> float:
        unit = 1024.0 ** int(math.log(max(value, 1.0), 1024))
        return unit * _round_up(max(value, 1.0) / unit)

    return Quantity(name=name, written=size, top=top)


def of_seconds(name: str) -> Quantity:
    """Return a quantity in seconds."""

    def top(value: float) -> float:
        return next((float(one) for one in _SECONDS if one >= value), math.ceil(value / 86400) * 86400.0)

    return Quantity(name=name, written=span, top=top)


def thinned(points: Sequence[CurvePoint], *, step: timedelta) -> tuple[Sequence[CurvePoint], timedelta]:
    """Return at most so many points as the picture can show, and their distance. The greatest of neighbours stays."""
    every = -(-len(points) // _MOST)
    if every <= 1:
        return points, step
    groups = (points[begin : begin + every] for begin in range(0, len(points), every))
    return [max(group, key=lambda point: point.value) for group in groups], every * step


def curve(
    quantity: Quantity,
    points: Sequence[CurvePoint],
    window: TimeRange,
    *,
    step: timedelta,
    marks: Sequence[Mark] = (),
) -> str:
    """Return the picture of a curve. Points that are further apart than two `step` are not joined.

    `marks` are vertical lines. Those outside the window are left out.
    """
    marks = [mark for mark in marks if 0 <= window.place(mark.at) <= 1]
    top = quantity.top(max((point.value for point in points), default=0.0))
    bottom = _HEIGHT - _BOTTOM

    def x(moment: datetime) -> float:
        return _LEFT + min(1.0, max(0.0, window.place(moment))) * (_WIDTH - _LEFT)

    def y(value: float) -> float:
        return bottom - value / top * (bottom - _TOP)

    parts = [*_levels(quantity, top, y), *_moments(window, x)]
    for segment in _segments(points, step):
        line = " ".join(f"{x(point.at):.1f},{y(point.value):.1f}" for point in segment)
        first, last = x(segment[0].at), x(segment[-1].at)
        parts.append(f'<polygon class="under" points="{first:.1f},{bottom} {line} {last:.1f},{bottom}"/>')
        parts.append(f'<polyline class="curve" points="{line}"/>')
        if len(segment) == 1:
            parts.append(f'<circle class="dot" cx="{first:.1f}" cy="{y(segment[0].value):.1f}" r="2"/>')
    parts += _titles(quantity, points, x)
    parts += _marks(marks, x)
    about = _text(described(quantity, points, window, runs=len(marks)))
    view = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="100%"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img" aria-label="{about}">{"".join(parts)}</svg>'


def described(quantity: Quantity, points: Sequence[CurvePoint], window: TimeRange, *, runs: int = 0) -> str:
    """Return in words what a curve shows, and how many runs are marked."""
    begin, end = (f"{moment:%Y-%m-%d %H:%M}" for moment in (window.begin, window.end))
    head = f"{quantity.name} from {begin} to {end} UTC: "
    if not points:
        return head + "not measured"
    values = [point.value for point in points]
    first, last, most = (quantity.written(value) for value in (values[0], values[-1], max(values)))
    marked = f", {runs} {'run' if runs == 1 else 'runs'} marked" if runs else ""
    return f"{head}{first} at first, {last} at last, at most {most}{marked}"


def _levels(quantity: Quantity, top: float, y: Callable[[float], float]) -> Iterator[str]:
    for number in range(_LINES + 1):
        value = top * number / _LINES
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
        label = _text(quantity.written(value)) if value else "0"
        yield f'<text class="level" x="{_LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{label}</text>'


def _moments(window: TimeRange, x: Callable[[datetime], float]) -> Iterator[str]:
    free = float(_LEFT)
    for moment, label in ticks(window):
        if x(moment) - _TICK_WIDTH / 2 >= free and x(moment) + _TICK_WIDTH / 2 <= _WIDTH:
            yield f'<text class="tick" x="{x(moment):.1f}" y="{_HEIGHT - 4}" text-anchor="middle">{_text(label)}</text>'
            free = x(moment) + _TICK_WIDTH / 2


def _segments(points: Sequence[CurvePoint], step: timedelta) -> Iterator[Sequence[CurvePoint]]:
    segment: list[CurvePoint] = []
    for point in points:
        if segment and point.at - segment[-1].at > 2 * step:
            yield segment
            segment = []
        segment.append(point)
    if segment:
        yield segment


def _titles(quantity: Quantity, points: Sequence[CurvePoint], x: Callable[[datetime], float]) -> Iterator[str]:
    every = max(1, len(points) // _TITLES)
    shown = points[::every]
    for number, point in enumerate(shown):
        begin = x(point.at)
        end = x(shown[number + 1].at) if number + 1 < len(shown) else min(_WIDTH, begin + _WIDTH / _TITLES)
        said = _text(f"{point.at:%Y-%m-%d %H:%M} UTC: {quantity.written(point.value)}")
        place = f'x="{begin:.1f}" y="{_TOP}" width="{max(1.0, end - begin):.1f}" height="{_HEIGHT - _BOTTOM - _TOP}"'
        yield f'<rect class="touch" {place}><title>{said}</title></rect>'


def _marks(marks: Sequence[Mark], x: Callable[[datetime], float]) -> Iterator[str]:
    """Yield a line for each mark. Marks at the same pixels are one line, which says them all."""
    places: dict[int, list[str]] = {}
    for mark in marks:
        places.setdefault(round(x(mark.at)), []).append(mark.title)
    for place, titles in sorted(places.items()):
        said = titles if len(titles) <= _TITLES_OF_A_MARK else [f"{len(titles)} runs, the first one: {titles[0]}"]
        line = f'x1="{place}" x2="{place}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"'
        yield f'<line class="mark" {line}><title>{_text("; ".join(said))}</title></line>'


def _round_up(value: float) -> float:
    """Return the least 1, 2 or 5 times a power of ten that is not less than a value."""
    power = 10.0 ** math.floor(math.log10(value)) if value > 0 else 1.0
    return next((times * power for times in (1, 2, 5, 10) if times * power >= value), 10 * power)


def _text(text: str) -> str:
    return escape(printable(text))
