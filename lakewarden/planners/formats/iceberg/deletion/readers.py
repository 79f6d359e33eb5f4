"""The snapshots that declared incremental readers still need. Pure.

A reader goes from the snapshot at which it stands to the head of its branch, from each snapshot to the next. So that
snapshot has to stay, and all of the branch after it. A stream of Spark (`SparkMicroBatchStream`, 1.11.0) stands at an
append. It skips other snapshots, and does not write down that it has passed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import accumulate

from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.moments import FOR_EVER, after
from lakewarden.planners.formats.iceberg.options.incremental_reader import IncrementalReader, ReaderKind
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.view import ReaderPosition
from lakewarden.planners.settings import format_duration, shown


def misread(readers: Sequence[IncrementalReader]) -> str | None:
    """Return why the declared readers cannot be told apart; None if they can."""
    names = [one.name for one in readers]
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"two readers have the name {twice}"


class NoSuchBranchError(PermanentError):
    """A reader is declared on a branch that the table does not have. The message is the `reason` with the `remedy`."""

    remedy = "correct the branch of the reader in options.readers, or remove the reader if the branch was dropped"

    def __init__(self, reader: IncrementalReader) -> None:
        self.reason = (
            f"reader {reader.name} is declared on the branch {shown(reader.branch)}, and the table has no such branch"
        )
        super().__init__(f"{self.reason}: {self.remedy}")


def read_by(reader: IncrementalReader, metadata: TableMetadata) -> Sequence[Snapshot]:
    """Return the snapshots of the reader's branch, the newest first. Raises NoSuchBranchError."""
    if reader.branch == MAIN:
        return metadata.ancestors(metadata.current)
    head = next((one.snapshot for one in metadata.refs if one.is_branch and one.name == reader.branch), None)
    if head is None:
        raise NoSuchBranchError(reader)
    return metadata.ancestors(head)


def needed_until(reader: IncrementalReader, branch: Sequence[Snapshot]) -> Mapping[int, datetime]:
    """Return until when a reader may need each snapshot of its `branch`, which has the newest first.

    A reader has always read all of the branch that is older than its lag. It needs a snapshot until it has certainly
    passed to a later one. For a scan this is the next snapshot, for a stream the next append.
    """
    lag = after(reader.longest_lag)
    # A writer's clock may have been behind. So a snapshot counts as young as the youngest of its ancestors.
    read_at = [lag(at) for at in reversed([*accumulate((one.at for one in reversed(branch)), max)])]
    until: dict[int, datetime] = {}
    passed_at = FOR_EVER
    for one, at in zip(branch, read_at, strict=True):
        until[one.id] = passed_at
        if reader.kind is ReaderKind.SCAN or one.operation == "append":
            passed_at = at
    return until


def positions(readers: Iterable[IncrementalReader], metadata: TableMetadata, now: datetime) -> Iterator[ReaderPosition]:
    """Yield the position of each reader if it is as far behind as it may be. Without its branch it has none."""
    for reader in readers:
        try:
            branch = read_by(reader, metadata)
        except NoSuchBranchError as missing:
            yield ReaderPosition(name=reader.name, unreadable=str(missing))
            continue
        until = needed_until(reader, branch)
        needed = [one for one in branch if until[one.id] >= now]
        writes = metadata.writes() if reader.branch == MAIN else [one for one in branch if one.operation != "replace"]
        unread = [one for one in writes if now - one.at <= reader.longest_lag]
        yield ReaderPosition(
            name=reader.name,
            at=f"{format_duration(reader.longest_lag)} back at most",
            behind=len(unread),
            unread_since=min((one.at for one in unread), default=None),
            needs=str(needed[-1].id) if needed else None,
        )
