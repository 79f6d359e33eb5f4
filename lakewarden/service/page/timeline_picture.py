"""A timeline as SVG. Bars that would lie on each other at this width are drawn as one, with their number.

The text is complete: each bar has a title, and `described` says the whole picture in one sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from html import escape

from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Timeline
from lakewarden.planners.model.printable import printable, span
from lakewarden.service.model.run import Run, RunState

# The bars of a timeline's picture: what happened to a table from when to when, in lanes. Pure.


class Hand(StrEnum):
    """Who made a bar: a writer, a run of this daemon's store, or another program that runs table services."""

    WRITER = "writer"
    OURS = "ours"
    OTHER = "other"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bar:
    """One instant, or one run. `ended_at` is None if it has not ended.

    A `waiting` bar is the time of a run in the queue. `failed`: the run failed. `run` is the id of the run behind it.
    """

    lane: str
    begun_at: datetime
    ended_at: datetime | None
    hand: Hand
    about: str
    failed: bool = False
    waiting: bool = False
    run: str | None = None


WRITES = "writes"
_LANES = (WRITES, *(service.value for service in Service), "savepoints", "restores", "other")
_OF_DEED: Mapping[InstantKind, str] = {
    InstantKind.WRITE: WRITES,
    InstantKind.SAVEPOINT: "savepoints",
    InstantKind.RESTORE: "restores",
    InstantKind.OTHER: "other",
}
_OF_RUNS = "runs: "


def bars(timeline: Timeline, runs: Iterable[Run]) -> Sequence[Bar]:
    """Return the bars of the instants of a table, and those of the runs that `runs` has of it."""
    all_runs = list(runs)
    by_instant = {run.instant: run for run in all_runs if run.instant is not None}
    of_instants = [_of_instant(instant, by_instant.get(instant.time)) for instant in timeline.instants]
    return [*of_instants, *(bar for run in all_runs for bar in _of_run(run))]


def lanes(bars: Iterable[Bar]) -> Sequence[str]:
    """Return the lanes of these bars: first the writes, then the services, then the runs."""
    present = {bar.lane for bar in bars}
    order = [*_LANES, *(_OF_RUNS + service.value for service in Service)]
    return [lane for lane in order if lane in present]


def _of_instant(instant: Instant, run: Run | None) -> Bar:
    what = instant.stands_for
    ours = instant.author is not None or run is not None
    state = "" if instant.state is State.COMPLETED else f", {instant.state.name.lower()}"
    return Bar(
        lane=_OF_DEED[what] if isinstance(what, InstantKind) else what.value,
        begun_at=instant.requested_at,
        ended_at=instant.completed_at if not instant.pending else None,
        hand=Hand.WRITER if isinstance(what, InstantKind) else Hand.OURS if ours else Hand.OTHER,
        about=f"{instant.action} {instant.time}{state}",
        run=instant.author or (run.id if run else None),
    )


def _of_run(run: Run) -> Iterator[Bar]:
    lane = _OF_RUNS + run.service.value
    started = run.started_at or run.ended_at
    yield Bar(
        lane=lane,
        begun_at=run.created_at,
        ended_at=started,
        hand=Hand.OURS,
        about=f"{run.service} waited in the queue",
        waiting=True,
        run=run.id,
    )
    if run.started_at is not None:
        yield Bar(
            lane=lane,
            begun_at=run.started_at,
            ended_at=run.ended_at,
            hand=Hand.OURS,
            about=f"{run.service}: {run.state}" + (f", {run.outcome}" if run.outcome else ""),
            failed=run.state is RunState.FAILED,
            run=run.id,
        )


# The time axis of a picture: the window that it shows, and its ticks. Pure. All times are UTC.

SPANS: dict[str, timedelta] = {
    "1m": timedelta(minutes=1),
    "10m": timedelta(minutes=10),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "1d": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
    "1y": timedelta(days=365),
}
"""The lengths of a window that one can choose, by their names."""

_STEPS = (
    *(timedelta(seconds=count) for count in (1, 5, 10, 30)),
    *(timedelta(minutes=count) for count in (1, 2, 5, 10, 30)),
    *(timedelta(hours=count) for count in (1, 2, 4, 12)),
    *(timedelta(days=count) for count in (1, 2, 7, 30, 60, 365)),
)
_TICKS = 8
_NEWEST = 60
_ROUND = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeRange:
    """The time that a picture shows."""

    begin: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.begin

    def place(self, moment: datetime) -> float:
        """Return where a moment is: 0 at the begin of the window, 1 at its end, and less or more outside."""
        return (moment - self.begin) / self.length

    def shows(self, bar: Bar) -> bool:
        """Whether a part of a bar is in the window."""
        return bar.begun_at <= self.end and (bar.ended_at is None or bar.ended_at >= self.begin)


def fitting(bars: Sequence[Bar], *, now: datetime) -> TimeRange:
    """Return the shortest window until `now` with the newest bars."""
    newest = sorted((bar.begun_at for bar in bars), reverse=True)[:_NEWEST]
    needed = now - newest[-1] if newest else timedelta(0)
    length = next((span for span in SPANS.values() if span >= needed), needed)
    return TimeRange(begin=now - length, end=now)


def steady(window: TimeRange) -> TimeRange:
    """Return a window that ends at most a two-hundredth of its length later, at a round moment.

    So a picture until now does not change with each second in which nothing has happened.
    """
    step = max(timedelta(seconds=1), window.length / _ROUND)
    end = _EPOCH + -((_EPOCH - window.end) // step) * step
    return TimeRange(begin=end - window.length, end=end)


def ticks(window: TimeRange) -> Sequence[tuple[datetime, str]]:
    """Return at most eight moments of a window that are round, each with its label."""
    step = next((step for step in _STEPS if window.length / step <= _TICKS), _STEPS[-1])
    first = _EPOCH + -((_EPOCH - window.begin) // step) * step
    first = first if first >= window.begin else first + step
    moments = [first + number * step for number in range(_TICKS + 1)]
    return [(moment, _label(moment, step)) for moment in moments if moment <= window.end]


def _label(moment: datetime, step: timedelta) -> str:
    if step >= timedelta(days=60):
        return f"{moment:%Y-%m-%d}"
    if step >= timedelta(days=1) or (moment.hour, moment.minute, moment.second) == (0, 0, 0):
        return f"{moment:%m-%d}"
    return f"{moment:%H:%M:%S}" if step < timedelta(minutes=1) else f"{moment:%H:%M}"


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


def drawn(bars: Iterable[Bar], window: TimeRange, *, now: datetime, link: Callable[[str], str]) -> str:
    """Return the picture of the bars in a window. `link` returns the address of a run, for the bars of runs."""
    in_window = [bar for bar in bars if window.shows(bar)]
    back: list[str] = []
    front: list[str] = []
    top = float(_TOP)
    for lane in lanes(in_window):
        rows = _rows(_joined([bar for bar in in_window if bar.lane == lane], window, now))
        height = _ROW * max(1, len(rows)) + 6
        back.append(f'<rect class="lane" x="{_LEFT}" y="{top:g}" width="{_WIDTH - _LEFT}" height="{height - 2}"/>')
        back.append(f'<text class="name" x="0" y="{top + 13:g}">{_text(lane.replace("_", " "))}</text>')
        for number, row in enumerate(rows):
            front.extend(_bar(box, top + 2 + number * _ROW, now, link) for box in row)
        top += height
    axis = [_tick(_LEFT + window.place(moment) * (_WIDTH - _LEFT), label, top) for moment, label in ticks(window)]
    inside = "".join([*back, *axis, *front])
    size = f'viewBox="0 0 {_WIDTH} {top + 20:g}" width="100%"'
    about = _text(described(in_window, window))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="group" aria-label="{about}">{inside}</svg>'


def described(bars: Sequence[Bar], window: TimeRange) -> str:
    """Return in words what the picture of these bars shows."""
    counts = [f"{sum(bar.lane == lane for bar in bars)} {lane.replace('_', ' ')}" for lane in lanes(bars)]
    begin, end = (f"{moment:%Y-%m-%d %H:%M:%S}" for moment in (window.begin, window.end))
    return f"Timeline from {begin} to {end} UTC: {', '.join(counts) or 'nothing happened'}"


def _joined(bars: Sequence[Bar], window: TimeRange, now: datetime) -> list[_Drawn]:
    """Return the bars of a lane from left to right. Equal ones in the same pixels are one."""
    cells: dict[tuple[object, ...], _Drawn] = {}
    for bar in bars:
        left, right = _edges(bar, window, now)
        key = (round(left / _CELL), round(right / _CELL), bar.hand, bar.failed, bar.waiting, bar.ended_at is None)
        box = cells.get(key)
        cells[key] = _Drawn(bar=bar, left=left, right=right, count=1) if box is None else _with(box, bar)
    return sorted(cells.values(), key=lambda cell: (cell.left, cell.right))[:_MOST]


def _with(box: _Drawn, bar: Bar) -> _Drawn:
    return replace(box, bar=max(box.bar, bar, key=lambda candidate: candidate.begun_at), count=box.count + 1)


def _edges(bar: Bar, window: TimeRange, now: datetime) -> tuple[float, float]:
    width = _WIDTH - _LEFT
    left = _LEFT + max(0.0, window.place(bar.begun_at)) * width
    right = _LEFT + min(1.0, window.place(bar.ended_at or max(now, bar.begun_at))) * width
    left = min(left, _WIDTH - _LEAST)
    return left, max(right, left + _LEAST)


def _rows(boxes: Sequence[_Drawn]) -> list[list[_Drawn]]:
    """Return the bars in rows without overlaps. What has no row left is drawn over the last one."""
    rows: list[list[_Drawn]] = []
    for box in boxes:
        free = next((row for row in rows if row[-1].right <= box.left + _LEAST), None)
        if free is None and len(rows) < _ROWS:
            free = []
            rows.append(free)
        (rows[-1] if free is None else free).append(box)
    return rows


def _bar(box: _Drawn, top: float, now: datetime, link: Callable[[str], str]) -> str:
    bar = box.bar
    classes = ["failed" if bar.failed else bar.hand.value]
    classes += [name for name, holds in (("waiting", bar.waiting), ("pending", bar.ended_at is None)) if holds]
    place = f'x="{box.left:.1f}" y="{top:g}" width="{box.right - box.left:.1f}" height="{_ROW - 3}"'
    rect = f'<rect class="{" ".join(classes)}" {place} rx="1.5"><title>{_text(_title(box, now))}</title></rect>'
    if bar.run is None or box.count > 1:
        return rect
    return f'<a href="{_text(link(bar.run))}" tabindex="-1">{rect}</a>'


def _title(box: _Drawn, now: datetime) -> str:
    bar = box.bar
    lasted = span(((bar.ended_at or now) - bar.begun_at).total_seconds())
    when = f"{bar.begun_at:%Y-%m-%d %H:%M:%S} UTC, " + (f"for {lasted} until now" if bar.ended_at is None else lasted)
    who = {Hand.WRITER: "", Hand.OURS: " (Lakewarden)", Hand.OTHER: " (another program)"}[bar.hand]
    return f"{bar.about}{who}: {when}" if box.count == 1 else f"{box.count} of {bar.lane}{who}, the newest: {bar.about}"


def _tick(place: float, label: str, height: float) -> str:
    anchor = "end" if place > _WIDTH - _LABEL else "middle"
    line = f'<line class="grid" x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{height:g}"/>'
    return f'{line}<text class="tick" x="{place:.1f}" y="{height + 14:g}" text-anchor="{anchor}">{_text(label)}</text>'


def _text(text: str) -> str:
    return escape(printable(text))
