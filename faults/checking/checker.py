"""The checker: whether a history shows damage. It shares no code with the code under test. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import TypeVar

from faults.checking.history import SUCCEEDED, History, Interval

_NAMED = 5

_Thing = TypeVar("_Thing")
_Key = TypeVar("_Key", bound=Hashable)


class Rule(StrEnum):
    """What must never happen."""

    ROWS = "rows"
    CHANGED = "rows changed"
    FILES = "files"
    PENDING = "pending"
    TWICE = "executed twice"
    EPOCHS = "epochs"
    STORE = "store"
    TRAVEL = "time travel"
    WRITER = "writer"
    DAEMON = "daemon"


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """A rule that was broken, and the evidence."""

    rule: Rule
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


def violations(history: History) -> list[Violation]:
    """Return every violation in the history. Empty is the proof."""
    rules = {
        Rule.ROWS: _rows,
        Rule.CHANGED: _changed,
        Rule.FILES: _files,
        Rule.PENDING: _pending,
        Rule.TWICE: _twice,
        Rule.EPOCHS: _epochs,
        Rule.STORE: _store,
        Rule.TRAVEL: _travel,
        Rule.WRITER: _writer,
    }
    return [Violation(rule=rule, what=what) for rule, look in rules.items() for what in look(history)]


def _rows(history: History) -> Iterator[str]:
    """Compare the table with the acknowledged rows: none is missing, none is added, none differs."""
    expected, found = history.expected, history.found
    for word, keys in (
        ("missing", expected.keys() - found.keys()),
        ("not of the writer", found.keys() - expected.keys()),
        ("not as they were written", {key for key in expected.keys() & found.keys() if expected[key] != found[key]}),
    ):
        if keys:
            yield f"{len(keys)} of {len(expected)} rows are {word}: {_some(keys)}"
    if history.twice:
        yield f"{len(history.twice)} keys are in several rows: {_some(history.twice)}"


def _changed(history: History) -> Iterator[str]:
    """No instant of ours shows other rows than the table had before it."""
    for instant, rows in sorted(history.changed.items()):
        what = history.timeline.completed.get(instant, "an instant of ours")
        yield f"{what} {instant} changed {rows} rows"


def _files(history: History) -> Iterator[str]:
    """Every file that a retained instant refers to exists."""
    there = set(history.files)
    for instant, needed in sorted(history.needed.items()):
        if gone := set(needed) - there:
            yield f"instant {instant} needs {len(gone)} files that are gone: {_some(gone)}"


def _pending(history: History) -> Iterator[str]:
    """After the drain, no instant is pending."""
    if history.timeline.pending:
        yield f"{len(history.timeline.pending)} instants are stuck: {_some(history.timeline.pending)}"


def _twice(history: History) -> Iterator[str]:
    """No two executors ever worked on one instant at the same time."""
    for instant, intervals in _grouped(history.intervals, lambda i: (i.table, i.instant)).items():
        if instant[1] is None:
            continue
        for first, second in _overlaps(intervals):
            yield (
                f"instant {instant[1]} had two executors at once: run {first.run} ({first.step}, epoch "
                f"{first.epoch}) until {first.until:.3f}, run {second.run} ({second.step}, epoch {second.epoch}) "
                f"from {second.begun:.3f}"
            )


def _overlaps(intervals: Iterable[Interval]) -> Iterator[tuple[Interval, Interval]]:
    """Yield each interval that begins before another run's has ended, together with the interval that ends last of
    those.
    """
    last: Interval | None = None
    for interval in sorted(intervals, key=lambda i: i.begun):
        if last is not None and interval.run != last.run and interval.begun < last.until:
            yield last, interval
        if last is None or interval.until > last.until:
            last = interval


def _epochs(history: History) -> Iterator[str]:
    """Every owner of a lease has a higher epoch than the one before, in the store and in the steps of the executors."""
    leased = (run for run in history.runs if run.epoch > 0)
    for lease, runs in _grouped(leased, lambda r: (r.identity, r.service)).items():
        for before, after in pairwise(runs):
            if after.epoch <= before.epoch:
                yield (
                    f"{lease[1]}: run {after.id} has epoch {after.epoch}, run {before.id} before it had {before.epoch}"
                )
    for (_, service), intervals in _grouped(history.intervals, lambda i: (i.table, i.service)).items():
        for earlier, later in pairwise(sorted(intervals, key=lambda i: i.begun)):
            if later.epoch < earlier.epoch or (later.epoch == earlier.epoch and later.run != earlier.run):
                yield (
                    f"{service}: run {later.run} executed under epoch {later.epoch} after run {earlier.run} had "
                    f"under {earlier.epoch}"
                )


def _store(history: History) -> Iterator[str]:
    """Compare the runs in the store with the instants of the timeline."""
    timeline = history.timeline
    known = {*timeline.completed, *timeline.archived}
    successes = [run for run in history.runs if run.state == SUCCEEDED and run.instant is not None]
    for run in history.runs:
        if not run.ended:
            yield f"run {run.id} of {run.service} has not ended: {run.state}"
    for run in successes:
        if run.instant not in known:
            yield f"run {run.id} of {run.service} succeeded on {run.instant}, which the timeline does not know"
    succeeded = Counter(str(run.instant) for run in successes)
    for instant, times in sorted(succeeded.items()):
        if times > 1:
            yield f"{times} runs succeeded on {instant}"
    for instant, service in sorted(timeline.completed.items()):
        if service in history.exclusive and instant not in succeeded:
            yield f"{service} {instant} is completed, and no run succeeded on it"
    yield from _authors(history)


def _authors(history: History) -> Iterator[str]:
    """Compare the runs in the store with the runs that the instants name."""
    runs, authors = {run.id: run for run in history.runs}, history.timeline.authors
    for instant, author in sorted(authors.items()):
        run = runs.get(author)
        if run is None or run.state != SUCCEEDED or run.service != history.timeline.completed.get(instant):
            known = "the store does not know" if run is None else f"is {run.state} and of {run.service} in the store"
            yield f"{history.timeline.completed.get(instant)} {instant} names run {author}, which {known}"
    for run in history.runs:
        leaves_a_trace = run.service in history.signed and run.state == SUCCEEDED and not run.idle
        if leaves_a_trace and run.id not in authors.values():
            yield f"run {run.id} of {run.service} succeeded, and no instant names it"


def _travel(history: History) -> Iterator[str]:
    """Every retained instant shows the rows that it has always shown."""
    for journey in history.journeys:
        if not journey.right and not journey.overtaken:
            yield f"{journey.operation} {journey.instant}: {journey.failure or f'{journey.wrong} rows differ'}"


def _writer(history: History) -> Iterator[str]:
    """No commit of the writer failed. Everything that ran or was killed belongs to Lakewarden."""
    for batch in history.failures:
        yield f"batch {batch.number}, begun {batch.begun.isoformat()}, is {batch.ending}: {batch.reason[:400]}"


def _grouped(things: Iterable[_Thing], key: Callable[[_Thing], _Key]) -> dict[_Key, list[_Thing]]:
    groups: dict[_Key, list[_Thing]] = defaultdict(list)
    for thing in things:
        groups[key(thing)].append(thing)
    return groups


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:_NAMED]
    return ", ".join(shown) + (", ..." if len(names) > _NAMED else "")
