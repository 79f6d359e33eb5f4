"""What compaction has to do on a directory. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from lakewarden.planners.formats.directory.compacting.rules import CompactionRules, CompactionState, judge
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.service_needs import (
    MOST_SHOWN,
    ServiceNeeds,
    above_in,
    backlog_of,
    shown_path,
)
from lakewarden.planners.formats.directory.writers.activity import moment
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.settings import format_size


def due(folders: Mapping[str, Folder], rules: CompactionRules, now: datetime) -> list[str]:
    """Return the partitions that are to be compacted, those with the most small files first."""
    found = (
        (folder.small, path)
        for path, folder in folders.items()
        if judge(path, folder, above_in(path, folders), rules, now).state is CompactionState.DUE
    )
    return [path for _, path in sorted(found, reverse=True)]


def compaction_needs(
    folders: Mapping[str, Folder], rules: CompactionRules, now: datetime, *, unfinished: str | None = None
) -> ServiceNeeds:
    """Judge every partition, and add up. `unfinished` is what a killed run has left."""
    counts, until, waits, found = Counter[CompactionState](), list[datetime](), list[str](), list[Folder]()
    for path, folder in folders.items():
        verdict = judge(path, folder, above_in(path, folders), rules, now)
        if folder.files:
            counts[verdict.state] += 1
        if verdict.until is not None:
            until.append(verdict.until)
        if verdict.state is CompactionState.DUE:
            found.append(folder)
        elif verdict.state is not CompactionState.COMPACT and len(waits) < MOST_SHOWN:
            waits.append(f"{shown_path(path)} is not compacted: {verdict.reason}")
    size = sum(folder.small_bytes for folder in found)
    files = sum(folder.small for folder in found)
    summary = f"{len(found)} partitions are to be compacted, with {files} small files, {format_size(size)}"
    changes_at = min(until, default=None)
    if not found and unfinished is None:
        reason = f"no partition is to be compacted: {waits[0]}" if waits else "no partition has many small files"
        return ServiceNeeds(rest=NotDue(reason=reason, again_at=changes_at), notes=tuple(waits), changes_at=changes_at)
    since = moment(min((folder.changed_at for folder in found), default=now.timestamp()))
    backlog = backlog_of(len(found), since, files=files, size=size, small_files=files, unfinished=unfinished)
    return ServiceNeeds(backlog=backlog, notes=(summary, *waits), changes_at=changes_at)
