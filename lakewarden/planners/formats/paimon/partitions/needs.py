"""What partition commit and ttl have to do on a Paimon table, and what an operator should know of its partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.changes import Changes
from lakewarden.planners.formats.paimon.backlog.notes import counted
from lakewarden.planners.formats.paimon.backlog.totals import Totals
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.partitions.committing import DoneRule, is_marked, resting
from lakewarden.planners.formats.paimon.partitions.expiry import PartitionTerm, expired
from lakewarden.planners.formats.paimon.partitions.listed import PaimonPartition, partitions_of
from lakewarden.planners.formats.paimon.partitions.reading import read_markers
from lakewarden.planners.formats.paimon.writers.markers import Done
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.view import Backlog
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_size

_MOST_READ = 5000
"""So many markers are read in one look, those of the partitions that rest for the longest time first."""

_MOST_SHOWN = 5
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionNeeds:
    """The backlog of a service, or why it rests, and when time alone may change that."""

    backlog: Backlog | None = None
    rest: NotDue | None = None
    notes: tuple[str, ...] = ()
    changes_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Marking:
    """The partitions to mark, those that rest for the longest time first; how many have a valid marker, how many are
    `left` for the next look, and why others wait.
    """

    due: Sequence[PaimonPartition]
    marked: int
    left: int
    waits: Sequence[str]
    next_at: datetime | None
    known: Mapping[bytes, Done] = field(default_factory=dict)


def marking_of(
    totals: Totals,
    schema: Schema,
    changes: Changes,
    rule: DoneRule,
    now: datetime,
    *,
    location: str,
    storage: Storage,
    known: Mapping[bytes, Done],
) -> Marking:
    """Judge every partition. The markers that are `known` are read again only if rows came since."""
    done, waiting = resting(partitions_of(totals, schema), changes, rule, now)
    unknown = [one for one in done if not is_marked(one, changes, known.get(one.row))]
    read = read_markers(location, unknown[:_MOST_READ], storage)
    due = [one for one in unknown[:_MOST_READ] if not is_marked(one, changes, read.get(one.row))]
    now_known = {one.row: known[one.row] for one in done if one.row in known} | dict(read)
    return Marking(
        due=due,
        marked=len(done) - len(due) - len(unknown[_MOST_READ:]),
        left=len(unknown[_MOST_READ:]),
        waits=[f"{called(one)}: {why.reason}" for one, why in waiting[:_MOST_SHOWN]],
        next_at=min((why.until for _, why in waiting if why.until is not None), default=None),
        known=now_known,
    )


def marking_needs(found: Marking, changes: Changes, now: datetime) -> PartitionNeeds:
    """Add up what partition commit has to do."""
    summary = f"{counted(len(found.due), 'partition')} to mark as done, {found.marked} marked"
    left = (f"the markers of {counted(found.left, 'partition')} are read by the next looks",) if found.left else ()
    notes = (summary, *left, *found.waits)
    changes_at = now if found.left else found.next_at
    if found.due:
        backlog = _backlog(found.due, min(changes.latest(one.row) for one in found.due), exact=not found.left)
        return PartitionNeeds(backlog=backlog, notes=notes, changes_at=changes_at)
    why = f"no partition is to be marked as done ({found.waits[0] if found.waits else summary})"
    return PartitionNeeds(rest=NotDue(reason=why, again_at=changes_at), notes=notes, changes_at=changes_at)


def ttl_needs(totals: Totals, schema: Schema, changes: Changes, term: PartitionTerm, now: datetime) -> PartitionNeeds:
    """Add up what ttl has to do."""
    found = expired(partitions_of(totals, schema), changes, term, now)
    waits = tuple(f"{called(one)} has expired, and is kept: {why}" for one, why in found.kept[:_MOST_SHOWN])
    if not found.gone:
        reason = waits[0] if waits else "no partition has expired"
        rest = NotDue(reason=reason, again_at=found.next_at)
        return PartitionNeeds(rest=rest, notes=waits, changes_at=found.next_at)
    gone = [one for _, one in found.gone]
    files, size, rows = sum(one.files for one in gone), sum(one.bytes for one in gone), sum(one.rows for one in gone)
    summary = (
        f"{counted(len(gone), 'partition')} expired, with {counted(files, 'file')}, {format_size(size)}, "
        f"{counted(rows, 'row')}, the oldest is {called(gone[0])}"
    )
    backlog = _backlog(gone, found.gone[0][0], exact=True)
    return PartitionNeeds(backlog=backlog, notes=(summary, *waits), changes_at=found.next_at)


def called(partition: PaimonPartition) -> str:
    """Return a partition as a line may show it."""
    if partition.name is None:
        return f"0x{partition.row.hex()[:64]}"
    return printable(partition.name.folder, most=_LONGEST_NAME)


def _backlog(partitions: Sequence[PaimonPartition], since: datetime, *, exact: bool) -> Backlog:
    """Return the work: each partition counts as a commit."""
    return Backlog(
        commits=len(partitions),
        commits_since_request=len(partitions),
        since=since,
        since_request=since,
        files=sum(one.files for one in partitions),
        bytes=sum(one.bytes for one in partitions),
        exact=exact,
    )
