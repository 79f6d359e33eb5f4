"""The snapshots in which sinks look for their marks. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.metadata import Ref, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.moments import FOR_EVER, later
from lakewarden.planners.formats.iceberg.metadata.sink_marks import SinkMark, marks_in
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkedSnapshot:
    """The newest snapshot on one branch with a mark of a sink. The branch is None if the snapshot is on no branch. It
    is `superseded` if another job of the same kind has committed to the branch later. A Flink job that was redeployed
    has another id.
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

    def on_the_way(self, metadata: TableMetadata) -> Iterator[Snapshot]:
        """Yield the snapshots between the head of the branch and this one. Without them its mark is not found."""
        if self.branch is None:
            return
        for one in metadata.ancestors(self.branch.snapshot):
            if one.id == self.snapshot.id:
                return
            yield one


def marked_snapshots(metadata: TableMetadata) -> Iterator[MarkedSnapshot]:
    """Yield the newest snapshot with each mark of a sink, on every branch and over all snapshots.

    A sink follows the parents of its branch's head to the newest snapshot with its mark. If it finds no such snapshot,
    it commits again what it had committed (`SinkUtil.getMaxCommittedCheckpointId`). The job that committed last to a
    branch may still run, however old its commit is. A commit that is on no branch counts as superseded.
    """
    marks = {one.id: found for one in metadata.snapshots if (found := tuple(marks_in(one.summary)))}
    if not marks:
        return
    found_on_branches: set[tuple[int, SinkMark]] = set()
    for branch in (*(ref for ref in metadata.refs if ref.is_branch), None):
        newest = metadata.ancestors(branch.snapshot) if branch is not None else _newest_first(metadata)
        seen: set[SinkMark] = set()
        last: dict[str, str] = {}
        for one in newest:
            for mark in marks.get(one.id, ()):
                if mark in seen:
                    continue
                seen.add(mark)
                writer = last.setdefault(mark.kind, mark.writer)
                if branch is not None or (one.id, mark) not in found_on_branches:
                    found_on_branches.add((one.id, mark))
                    superseded = branch is None or mark.writer != writer
                    yield MarkedSnapshot(snapshot=one, mark=mark, branch=branch, superseded=superseded)


def _newest_first(metadata: TableMetadata) -> Iterator[Snapshot]:
    return iter(sorted(metadata.snapshots, key=lambda one: (one.sequence, one.at), reverse=True))
