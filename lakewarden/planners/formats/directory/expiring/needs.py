"""What ttl has to do on a directory. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lakewarden.planners.formats.directory.expiring.expiry import ExpiryTerm, expires_at, why_kept
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.service_needs import (
    MOST_SHOWN,
    ServiceNeeds,
    above_in,
    backlog_of,
    shown_path,
)
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.settings import format_size


def expired(folders: Mapping[str, Folder], term: ExpiryTerm, now: datetime) -> list[str]:
    """Return the partitions that have expired, the oldest times first."""
    found = (
        (at, path)
        for path, folder in folders.items()
        if (at := expires_at(path, folder, term)) is not None
        and why_kept(path, folder, above_in(path, folders), term, now) is None
    )
    return [path for _, path in sorted(found)]


def ttl_needs(
    folders: Mapping[str, Folder], term: ExpiryTerm, now: datetime, *, unfinished: str | None = None
) -> ServiceNeeds:
    """Judge every partition, and add up."""
    gone, first, later, waits = list[Folder](), (now, ""), list[datetime](), list[str]()
    for path, folder in folders.items():
        at = expires_at(path, folder, term)
        if at is None:
            continue
        why = why_kept(path, folder, above_in(path, folders), term, now)
        if why is None:
            gone.append(folder)
            first = min(first, (at, path))
        elif at >= now:
            later.append(at)
        elif len(waits) < MOST_SHOWN:
            waits.append(f"{shown_path(path)} has expired, and is kept: {why}")
    changes_at = min(later, default=None)
    if not gone and unfinished is None:
        return ServiceNeeds(
            rest=NotDue(reason=waits[0] if waits else "no partition has expired", again_at=changes_at),
            notes=tuple(waits),
            changes_at=changes_at,
        )
    files, size = sum(folder.files for folder in gone), sum(folder.bytes for folder in gone)
    backlog = backlog_of(len(gone), first[0], files=files, size=size, unfinished=unfinished)
    oldest = f"; the first is {shown_path(first[1])}, since {first[0]:%Y-%m-%d %H:%M} UTC" if gone else ""
    summary = f"{len(gone)} partitions have expired, with {files} files, {format_size(size)}{oldest}"
    return ServiceNeeds(backlog=backlog, notes=(summary, *waits), changes_at=changes_at)
