"""What a table's writers are doing, as far as commits show it. An Iceberg write is not visible before its commit."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice, pairwise
from statistics import median_low

from lakewarden.planners.formats.iceberg.metadata.digests import WriteMark
from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import stands_for
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.cold import on_the_clock, touch_of
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import InstantKind, Service
from lakewarden.planners.model.view import Touch, WriterActivity
from lakewarden.planners.settings import format_duration, shown

_COMMITS_TO_TELL_A_CADENCE = 20


def writer_activity(
    writes: Iterable[Snapshot],
    *,
    touches: Mapping[str, Touch] | None,
    updated: Mapping[str, Touch] | None,
    update_interval: timedelta | None,
) -> WriterActivity:
    """Return the time of the newest write, the usual time between two writes, and the touches. `writes` are those of
    main, the newest first.
    """
    times = [write.at for write in islice(writes, _COMMITS_TO_TELL_A_CADENCE)]
    return WriterActivity(
        last_commit_at=max(times, default=None),
        usual_interval=usual_interval(times),
        touches=touches,
        updated=updated,
        update_interval=update_interval,
    )


def usual_interval(times: Iterable[datetime]) -> timedelta | None:
    """Return the usual time between two of the newest commits. `times` come the newest first. None if there are fewer
    than two.
    """
    gaps = [later - earlier for later, earlier in pairwise(islice(times, _COMMITS_TO_TELL_A_CADENCE))]
    return median_low(gaps) if gaps else None


# Which partitions writers have touched lately, and which of these writers a rewrite could make fail.

_FLINK = "flink.job-id"
_EQUALITY, _POSITION, _REMOVED = "added-equality-delete-files", "added-position-delete-files", "deleted-data-files"


def is_update(snapshot: Snapshot) -> bool:
    """Whether a commit changed rows that were there already, so that its writer fails if files are rewritten meanwhile.

    Three kinds of commits do not: appends, commits that add only equality deletes, and commits of Flink. The position
    deletes of Flink apply to rows of the same commit (docs/iceberg.md).
    """
    if snapshot.operation == "append" or stands_for(snapshot) is not InstantKind.WRITE or _FLINK in snapshot.summary:
        return False
    return not (snapshot.count(_EQUALITY) and not snapshot.count(_POSITION) and not snapshot.count(_REMOVED))


def recent_updates(
    updates: Sequence[Snapshot], options: IcebergTableOptions, interval: timedelta | None
) -> tuple[Snapshot, ...]:
    """Return those of a table's `updates`, the newest first, that may still keep a partition left alone.

    The time is measured from the newest update, and not from now. So the result is the same for every call.
    """
    if not updates:
        return ()
    quiet = max(options.quiet_for, options.quiet_intervals * (interval or timedelta()))
    return tuple(update for update in updates if updates[0].at - update.at <= quiet)


def newest_updates(touched: Iterable[tuple[Snapshot, frozenset[str]]]) -> dict[str, Touch]:
    """Return the newest update of each partition, with the time of the update before it. `touched` comes the newest
    first, each with its partitions.
    """
    newest: dict[str, Touch] = {}
    for snapshot, partitions in touched:
        touch = touch_of(snapshot, updates=True)
        for partition in partitions:
            newest_touch = newest.setdefault(partition, touch)
            if newest_touch is not touch and newest_touch.before is None:
                newest[partition] = replace(newest_touch, before=snapshot.at)
    return newest


def newest_touches(
    files: Iterable[WriteMark], metadata: TableMetadata, updated: Mapping[str, Touch]
) -> Mapping[str, Touch]:
    """Return the newest write into each partition: an update, or the write that added its newest file.

    A file of a rewrite keeps the sequence number of the snapshot that was rewritten. So it shows only that its rows
    were written before that snapshot. The partition counts as touched by the last write until then.
    """
    writers = _Writers(metadata)
    newest = dict(updated)
    seen: set[tuple[str, int, int]] = set()
    for file in files:
        key = (file.partition, file.snapshot, file.sequence)
        if key in seen:
            continue
        seen.add(key)
        touch = writers.touch(file)
        newest_touch = newest.get(file.partition)
        if touch is not None and (newest_touch is None or newest_touch.at < touch.at):
            newest[file.partition] = touch
    return newest


class _Writers:
    """The writes of main, as far as their snapshots are not expired."""

    def __init__(self, metadata: TableMetadata) -> None:
        writes = metadata.writes()
        self._writes = {write.id: write for write in writes}
        self._oldest_first = writes[::-1]
        self._touches: dict[int, Touch] = {}

    def touch(self, file: WriteMark) -> Touch | None:
        """Return the latest write that the rows of a file can be from. None if it is expired."""
        write = self._writes.get(file.snapshot) or self._up_to(file.sequence)
        if write is None:
            return None
        if write.id not in self._touches:
            self._touches[write.id] = touch_of(write, updates=is_update(write))
        return self._touches[write.id]

    def _up_to(self, sequence: int) -> Snapshot | None:
        """Return the last write that was committed before the sequence number was given."""
        at = bisect_right(self._oldest_first, sequence, key=lambda write: write.sequence)
        return self._oldest_first[at - 1] if at else None


# Branches that are to become main (write, audit, publish). A commit of Lakewarden must not cut such a branch off. Pure.
#
# The branch begins at main's head, and `fast_forward` publishes it. If main gets a snapshot that is no ancestor of the
# branch, `fast_forward` fails, and the audited rows must be written anew. A commit that is staged without a branch
# (`wap.id`) can be published from any head, so it needs no wait.

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
    ancestor: Snapshot | None = head
    for _ in range(len(metadata.snapshots)):
        if ancestor is None or ancestor.sequence < main.sequence:
            return False
        if ancestor.id == main.id:
            return True
        ancestor = None if ancestor.parent is None else metadata.by_id.get(ancestor.parent)
    return False
