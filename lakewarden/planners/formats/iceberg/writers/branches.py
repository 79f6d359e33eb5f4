"""Branches that are to become main (write, audit, publish). A commit of Lakewarden must not cut such a branch off.
Pure.

The branch begins at main's head, and `fast_forward` publishes it. If main gets a snapshot that is no ancestor of the
branch, `fast_forward` fails, and the audited rows must be written anew. A commit that is staged without a branch
(`wap.id`) can be published from any head, so it needs no wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.cold import on_the_clock
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.settings import format_duration, shown

_COMMITTING = (Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE)
"""The services that add snapshots to main."""


def kept_off_for_branches(
    metadata: TableMetadata, options: IcebergTableOptions, now: datetime
) -> Mapping[Service, NotDue]:
    """Return which services must not commit to main now because a branch can become main as it is, and until when. A
    branch without a write for `longest_outage` is not waited for.
    """
    waits = [(head.at + options.longest_outage, ref, head) for ref, head in _ahead_of_main(metadata)]
    until, ref, head = max(waits, key=lambda wait: wait[0], default=(now, None, None))
    if ref is None or head is None or until <= now:
        return {}
    written, outage = on_the_clock(head.at, now), format_duration(options.longest_outage)
    reason = (
        f"branch {shown(ref.name)} is ahead of main, last written at {written}: after a commit of Lakewarden "
        f"fast_forward could not publish it. It is waited for as long as {outage}"
    )
    return dict.fromkeys(_COMMITTING, NotDue(code="writers_first", reason=reason, again_at=until))


def _ahead_of_main(metadata: TableMetadata) -> Iterator[tuple[Ref, Snapshot]]:
    """Yield the branches that begin at main's head, each with its own head."""
    main = metadata.current_snapshot
    for ref in metadata.refs:
        if main is not None and ref.is_branch and ref.name != MAIN and ref.snapshot != main.id:
            head = metadata.by_id[ref.snapshot]
            if _leads_to(metadata, main, head):
                yield ref, head


def _leads_to(metadata: TableMetadata, main: Snapshot, head: Snapshot) -> bool:
    """Whether `head` descends from `main`. Snapshots that are older than `main` are not read."""
    one: Snapshot | None = head
    for _ in range(len(metadata.snapshots)):
        if one is None or one.sequence < main.sequence:
            return False
        if one.id == main.id:
            return True
        one = None if one.parent is None else metadata.by_id.get(one.parent)
    return False
