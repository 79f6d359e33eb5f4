"""What partition commit has to do on a directory, and what people should know of its partitions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import nsmallest

from lakewarden.planners.formats.directory.committing.rules import PartitionState, Rules, judge
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.service_needs import (
    MOST_SHOWN,
    PartitionJudgement,
    above_in,
    backlog_of,
    shown_path,
)
from lakewarden.planners.formats.directory.writers.activity import moment
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Backlog
from lakewarden.planners.settings import format_size

_LONG = timedelta(days=1)
"""A part in progress that has not changed for so long is worth a look."""

_WORDS = {
    PartitionState.ACTIVE: "active",
    PartitionState.WAITING: "waiting",
    PartitionState.DUE: "to be committed",
    PartitionState.COMMITTED: "committed",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a look at all partitions says. `changes_at` is when time alone may change it."""

    summary: str
    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    notes: Mapping[Service, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    last_change: datetime | None = None
    changes_at: datetime | None = None


def due(folders: Mapping[str, Folder], rules: Rules, now: datetime) -> list[str]:
    """Return the partitions that are to be committed, those with the oldest change first."""
    found = (
        (folder.changed_at, path)
        for path, folder in folders.items()
        if judge(path, folder, above_in(path, folders), rules, now).state is PartitionState.DUE
    )
    return [path for _, path in sorted(found)]


def needs_of(folders: Mapping[str, Folder], rules: Rules, now: datetime) -> Needs:
    """Judge every partition, and add up."""
    counts, files, size, until, waits = Counter[PartitionState](), 0, 0, list[datetime](), list[str]()
    to_commit = list[Folder]()
    for path, folder in folders.items():
        verdict = judge(path, folder, above_in(path, folders), rules, now)
        files, size = files + folder.files, size + folder.bytes
        counts[verdict.state] += 1
        if verdict.until is not None:
            until.append(verdict.until)
        if verdict.state is PartitionState.DUE:
            to_commit.append(folder)
        elif verdict.state in (PartitionState.ACTIVE, PartitionState.WAITING) and len(waits) < MOST_SHOWN:
            waits.append(_line(path, verdict))
    partitions = sum(counts[state] for state in _WORDS)
    told = ", ".join(f"{counts[state]} {word}" for state, word in _WORDS.items() if counts[state])
    summary = f"{partitions} partitions ({told or 'none with data'}), {files} files, {format_size(size)}"
    changes_at = min(until, default=None)
    changed = max((folder.changed_at for folder in folders.values() if folder.files), default=None)
    return Needs(
        summary=summary,
        backlogs={Service.PARTITION_COMMIT: _backlog(to_commit)} if to_commit else {},
        at_rest={} if to_commit else {Service.PARTITION_COMMIT: _rest(summary, waits, changes_at)},
        notes={Service.PARTITION_COMMIT: (summary, *waits)},
        warnings=tuple(_warnings(folders.items(), now)),
        last_change=None if changed is None else moment(changed),
        changes_at=changes_at,
    )


def _backlog(partitions: list[Folder]) -> Backlog:
    return backlog_of(
        len(partitions),
        moment(min(folder.changed_at for folder in partitions)),
        files=sum(folder.files for folder in partitions),
        size=sum(folder.bytes for folder in partitions),
    )


def _rest(summary: str, waits: list[str], again_at: datetime | None) -> NotDue:
    reason = f"no partition is to be committed: {waits[0]}" if waits else f"no partition is to be committed: {summary}"
    return NotDue(reason=reason, again_at=again_at)


def _line(path: str, verdict: PartitionJudgement[PartitionState]) -> str:
    until = "" if verdict.until is None else f", until {verdict.until:%Y-%m-%d %H:%M:%S} UTC at least"
    return f"{shown_path(path)} is {_WORDS[verdict.state]}: {verdict.reason}{until}"


def _warnings(folders: Iterable[tuple[str, Folder]], now: datetime) -> Iterator[str]:
    """Yield the parts in progress that nothing seems to happen to, oldest first."""
    old = ((folder.staged_at, path, folder.staged) for path, folder in folders if folder.staged)
    for at, path, count in nsmallest(MOST_SHOWN, old):
        if now - moment(at) > _LONG:
            yield (
                f"{shown_path(path)} has {count} parts in progress that have not changed since "
                f"{moment(at):%Y-%m-%d %H:%M} UTC: its partition is not committed while they are there. Remove them if "
                "no job is restored that knows them, or set options.abandoned_after"
            )
