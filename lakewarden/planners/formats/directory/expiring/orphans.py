"""Which folders may hold orphans: parts in progress that have not changed for longer than any job is restored. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.options.orphans_options import OrphansOptions
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.formats.directory.service_needs import ServiceNeeds, backlog_of
from lakewarden.planners.formats.directory.writers.activity import moment
from lakewarden.planners.model.decision import NotDue


def age_of_orphans(table: DirectoryTableOptions, options: OrphansOptions) -> timedelta | None:
    """Return how long an orphan has not changed; None if the owner names no horizon."""
    return None if table.restore_horizon is None else max(table.restore_horizon, options.unchanged_for)


def with_orphans(folders: Mapping[str, Folder], age: timedelta, now: datetime) -> dict[str, Folder]:
    """Return the folders with parts, or with folders of parts, that may be orphans. No store is asked to delete the
    empty objects that mark folders.
    """
    before = (now - age).timestamp()
    return {
        path: folder
        for path, folder in folders.items()
        if (folder.staged or (folder.staging and not folder.hollow_since)) and folder.oldest_staged < before
    }


def orphans_needs(
    folders: Mapping[str, Folder], age: timedelta, now: datetime, *, unfinished: str | None = None
) -> ServiceNeeds:
    """Add up what may be orphans."""
    found = with_orphans(folders, age, now)
    later = (
        moment(folder.oldest_staged) + age
        for folder in folders.values()
        if folder.oldest_staged >= (now - age).timestamp()
    )
    changes_at = min(later, default=None)
    if not found and unfinished is None:
        rest = NotDue(reason="no part in progress is old enough to be an orphan", again_at=changes_at)
        return ServiceNeeds(rest=rest, changes_at=changes_at)
    files = sum(folder.staged + folder.staging for folder in found.values())
    oldest = min((folder.oldest_staged for folder in found.values()), default=now.timestamp())
    backlog = backlog_of(files, moment(oldest) + age, files=files, unfinished=unfinished)
    note = f"{len(found)} partitions hold parts, or folders of parts, that may be orphans"
    return ServiceNeeds(backlog=backlog, notes=(note,), changes_at=changes_at)
