"""The snapshots in which sinks look for their marks. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from lakewarden.planners.formats.iceberg.metadata.metadata import FOR_EVER, Ref, Snapshot, TableMetadata, later
from lakewarden.planners.formats.iceberg.metadata.timeline import SinkMark, marks_in
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedSnapshot:
    """The newest snapshot on one branch with a mark of a sink. The branch is None if the snapshot is on no branch. It
    is `superseded` if another job of the same kind has committed to the branch later (a Flink job that was redeployed
    has another id), and if a thousand snapshots of the branch follow it: such a sink is taken for one that was retired.
    """

    snapshot: Snapshot
    mark: SinkMark
    branch: Ref | None
    superseded: bool

    def stays_until(self, table_options: IcebergTableOptions) -> datetime:
        """Return until when the sink, or a job restored from it, may look for this snapshot."""
        if self.superseded or not table_options.keep_last_flink_commit:
            return later(self.snapshot.at, table_options.flink_restores)
        return FOR_EVER


_MOST_ON_THE_WAY = 1000


def marked_snapshots(metadata: TableMetadata, ignored: Sequence[str] = ()) -> Iterator[MarkedSnapshot]:
    """Yield the newest snapshot with each mark of a sink, on every branch and over all snapshots.

    A sink follows the parents of its branch's head to the newest snapshot with its mark. If it finds no such snapshot,
    it commits again what it had committed (`SinkUtil.getMaxCommittedCheckpointId`). The job that committed last to a
    branch may still run, however old its commit is. A commit that is on no branch counts as superseded. Keys that fit a
    pattern in `ignored` are no marks.
    """
    marks = {
        snapshot.id: snapshot_marks
        for snapshot in metadata.snapshots
        if (snapshot_marks := tuple(_marks_in(snapshot, ignored)))
    }
    if not marks:
        return
    found_on_branches: set[tuple[int, SinkMark]] = set()
    for branch in (*(ref for ref in metadata.refs if ref.is_branch), None):
        newest = metadata.ancestors(branch.snapshot) if branch is not None else _newest_first(metadata)
        seen: set[SinkMark] = set()
        last: dict[str, str] = {}
        for number, snapshot in enumerate(newest):
            for mark in marks.get(snapshot.id, ()):
                if mark in seen:
                    continue
                seen.add(mark)
                writer = last.setdefault(mark.kind, mark.writer)
                if branch is not None or (snapshot.id, mark) not in found_on_branches:
                    found_on_branches.add((snapshot.id, mark))
                    superseded = branch is None or mark.writer != writer or number > _MOST_ON_THE_WAY
                    yield MarkedSnapshot(snapshot=snapshot, mark=mark, branch=branch, superseded=superseded)


def _marks_in(snapshot: Snapshot, ignored: Sequence[str]) -> Iterator[SinkMark]:
    for mark in marks_in(snapshot.summary):
        if mark.kind or not any(fnmatchcase(mark.part, pattern) for pattern in ignored):
            yield mark


def _newest_first(metadata: TableMetadata) -> Iterator[Snapshot]:
    return iter(sorted(metadata.snapshots, key=lambda snapshot: (snapshot.sequence, snapshot.at), reverse=True))


def needed_by_sinks(metadata: TableMetadata, table_options: IcebergTableOptions) -> Mapping[int, datetime]:
    """Return until when sinks need snapshots: those with their marks, and all between these and the head of their
    branch. A sink that misses one of them on its way does not find its mark.
    """
    ends: dict[str | None, dict[int, datetime]] = defaultdict(dict)
    for marked_snapshot in marked_snapshots(metadata, table_options.ignored_marks):
        of_branch = ends[None if marked_snapshot.branch is None else marked_snapshot.branch.name]
        stays = marked_snapshot.stays_until(table_options)
        of_branch[marked_snapshot.snapshot.id] = max(stays, of_branch.get(marked_snapshot.snapshot.id, stays))
    until = dict(ends.pop(None, {}))
    for ref in metadata.refs:
        marked, latest = ends.get(ref.name, {}) if ref.is_branch else {}, None
        for one_id in reversed([ancestor.id for ancestor in metadata.ancestors(ref.snapshot)] if marked else []):
            latest = max(filter(None, (latest, marked.get(one_id))), default=None)
            if latest is not None:
                until[one_id] = max(latest, until.get(one_id, latest))
    return until
