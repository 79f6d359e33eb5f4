"""A timeline as SVG. Bars that would lie on each other at this width are drawn as one, with their number.

The text is complete: each bar has a title, and `described` says the whole picture in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from html import escape

from lakewarden.planners.model.printable import printable
from lakewarden.service.reporting.picture.axis import TimeRange, ticks
from lakewarden.service.reporting.picture.bars import Bar, Hand, lanes
from lakewarden.service.reporting.quantities import span

_WIDTH, _LEFT, _TOP, _ROW = 1000, 150, 8, 14
_LABEL = 20
_ROWS = 4
"""Bars of one lane that overlap are drawn in so many rows at most."""
_LEAST = 3.0
_CELL = 3
_MOST = 4000
"""So many bars are drawn at most."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Drawn:
    """A bar in the picture. `count` bars were joined into it."""

    bar: Bar
    left: float
    right: float
    count: int


def drawn(found: Iterable[Bar], window: TimeRange, *, now: datetime, link: Callable[[str], str] | None = None) -> str:
    """Return the picture of the bars in a window. `link` returns the address of a run, for the bars of runs."""
    shown = [bar for bar in found if window.shows(bar)]
    back: list[str] = []
    front: list[str] = []
    top = float(_TOP)
    for lane in lanes(shown):
        rows = _rows(_joined([bar for bar in shown if bar.lane == lane], window, now))
        height = _ROW * max(1, len(rows)) + 6
        back.append(f'<rect class="lane" x="{_LEFT}" y="{top:g}" width="{_WIDTH - _LEFT}" height="{height - 2}"/>')
        back.append(f'<text class="name" x="0" y="{top + 13:g}">{_text(lane.replace("_", " "))}</text>')
        for number, row in enumerate(rows):
            front.extend(_bar(one, top + 2 + number * _ROW, now, link) for one in row)
        top += height
    axis = [_tick(_LEFT + window.place(moment) * (_WIDTH - _LEFT), label, top) for moment, label in ticks(window)]
    inside = "".join([*back, *axis, *front])
    size = f'viewBox="0 0 {_WIDTH} {top + 20:g}" width="100%"'
    about = _text(described(shown, window))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="group" aria-label="{about}">{inside}</svg>'


def described(found: Sequence[Bar], window: TimeRange) -> str:
    """Return in words what the picture of these bars shows."""
    counts = [f"{sum(bar.lane == lane for bar in found)} {lane.replace('_', ' ')}" for lane in lanes(found)]
    begin, end = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (window.begin, window.end))
    return f"Timeline from {begin} to {end} UTC: {', '.join(counts) or 'nothing happened'}"


def _joined(found: Sequence[Bar], window: TimeRange, now: datetime) -> list[_Drawn]:
    """Return the bars of a lane from left to right. Equal ones in the same pixels are one."""
    cells: dict[tuple[object, ...], _Drawn] = {}
    for bar in found:
        left, right = _edges(bar, window, now)
        key = (round(left / _CELL), round(right / _CELL), bar.hand, bar.failed, bar.waiting, bar.ended_at is None)
        known = cells.get(key)
        cells[key] = _Drawn(bar=bar, left=left, right=right, count=1) if known is None else _with(known, bar)
    return sorted(cells.values(), key=lambda one: (one.left, one.right))[:_MOST]


def _with(known: _Drawn, bar: Bar) -> _Drawn:
    return replace(known, bar=max(known.bar, bar, key=lambda one: one.begun_at), count=known.count + 1)


def _edges(bar: Bar, window: TimeRange, now: datetime) -> tuple[float, float]:
    width = _WIDTH - _LEFT
    left = _LEFT + max(0.0, window.place(bar.begun_at)) * width
    right = _LEFT + min(1.0, window.place(bar.ended_at or max(now, bar.begun_at))) * width
    left = min(left, _WIDTH - _LEAST)
    return left, max(right, left + _LEAST)


def _rows(found: Sequence[_Drawn]) -> list[list[_Drawn]]:
    """Return the bars in rows without overlaps. What has no row left is drawn over the last one."""
    rows: list[list[_Drawn]] = []
    for one in found:
        free = next((row for row in rows if row[-1].right <= one.left + _LEAST), None)
        if free is None and len(rows) < _ROWS:
            free = []
            rows.append(free)
        (rows[-1] if free is None else free).append(one)
    return rows


def _bar(one: _Drawn, top: float, now: datetime, link: Callable[[str], str] | None) -> str:
    bar = one.bar
    classes = ["failed" if bar.failed else bar.hand.value]
    classes += [name for name, holds in (("waiting", bar.waiting), ("pending", bar.ended_at is None)) if holds]
    place = f'x="{one.left:.1f}" y="{top:g}" width="{one.right - one.left:.1f}" height="{_ROW - 3}"'
    rect = f'<rect class="{" ".join(classes)}" {place} rx="1.5"><title>{_text(_title(one, now))}</title></rect>'
    if bar.run is None or link is None or one.count > 1:
        return rect
    return f'<a href="{_text(link(bar.run))}" tabindex="-1">{rect}</a>'


def _title(one: _Drawn, now: datetime) -> str:
    bar = one.bar
    lasted = span(((bar.ended_at or now) - bar.begun_at).total_seconds())
    when = f"{bar.begun_at:%Y-%m-%d %H:%M:%S} UTC, " + (f"for {lasted} until now" if bar.ended_at is None else lasted)
    who = {Hand.WRITER: "", Hand.OURS: " (Lakewarden)", Hand.OTHER: " (another program)"}[bar.hand]
    return f"{bar.about}{who}: {when}" if one.count == 1 else f"{one.count} of {bar.lane}{who}, the newest: {bar.about}"


def _tick(place: float, label: str, height: float) -> str:
    anchor = "end" if place > _WIDTH - _LABEL else "middle"
    line = f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{height:g}"/>'
    return f'{line}<text class="tick" x="{place:.1f}" y="{height + 14:g}" text-anchor="{anchor}">{_text(label)}</text>'


def _text(text: str) -> str:
    return escape(printable(text))
