"""Which partitions writers have touched lately, and which of these writers a rewrite could make fail."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from lakewarden.planners.formats.iceberg.metadata.digests import WriteMark
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import stands_for, time_of
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.instant import InstantKind
from lakewarden.planners.model.view import Touch

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
    return tuple(one for one in updates if updates[0].at - one.at <= quiet)


def newest_updates(touched: Iterable[tuple[Snapshot, frozenset[str]]]) -> dict[str, Touch]:
    """Return the newest update of each partition, with the time of the update before it. `touched` comes the newest
    first, each with its partitions.
    """
    newest: dict[str, Touch] = {}
    for snapshot, partitions in touched:
        touch = _touch(snapshot, updates=True)
        for partition in partitions:
            known = newest.setdefault(partition, touch)
            if known is not touch and known.before is None:
                newest[partition] = replace(known, before=snapshot.at)
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
        told = (file.partition, file.snapshot, file.sequence)
        if told in seen:
            continue
        seen.add(told)
        touch = writers.touch(file)
        known = newest.get(file.partition)
        if touch is not None and (known is None or known.at < touch.at):
            newest[file.partition] = touch
    return newest


class _Writers:
    """The writes of main, as far as their snapshots are not expired."""

    def __init__(self, metadata: TableMetadata) -> None:
        writes = metadata.writes()
        self._writes = {one.id: one for one in writes}
        self._oldest_first = writes[::-1]
        self._touches: dict[int, Touch] = {}

    def touch(self, file: WriteMark) -> Touch | None:
        """Return the latest write that the rows of a file can be from. None if it is expired."""
        write = self._writes.get(file.snapshot) or self._up_to(file.sequence)
        if write is None:
            return None
        if write.id not in self._touches:
            self._touches[write.id] = _touch(write, updates=is_update(write))
        return self._touches[write.id]

    def _up_to(self, sequence: int) -> Snapshot | None:
        """Return the last write that was committed before the sequence number was given."""
        at = bisect_right(self._oldest_first, sequence, key=lambda write: write.sequence)
        return self._oldest_first[at - 1] if at else None


def _touch(snapshot: Snapshot, *, updates: bool) -> Touch:
    return Touch(at=snapshot.at, instant=time_of(snapshot.at, snapshot.id), updates=updates)
