"""Whether a partition has expired, by Paimon's own strategies and one more rule, and whether it is done. Pure.

Source: `PartitionValuesTimeExpireStrategy` and `PartitionUpdateTimeExpireStrategy` in `org.apache.paimon.partition` of
Paimon 1.3.1. The further rule: rows that came within the longest outage of a writer keep their partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.formats.paimon.backlog.manifests_read import Changes, Totals
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.service_options import (
    BY_VALUES,
    ExpirationStrategy,
    PartitionCommitOptions,
    TtlOptions,
)
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.paimon.partitions.names import (
    PaimonPartition,
    partitions_of,
    read_markers,
    time_of_name,
    times_by,
)
from lakewarden.planners.formats.paimon.writers import Done
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.printable import counted, printable
from lakewarden.planners.model.view import Backlog, ServiceNeeds
from lakewarden.planners.partitions import PartitionTimeOptions, age_counts_from
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration, format_size, shown


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionTerm:
    """What all partitions of a table are judged by. `by_values`: the age counts from the time that their values
    tell. No partition is dropped if rows came into it within `outage`.
    """

    retain: timedelta
    by_values: bool
    times: PartitionTimeOptions
    outage: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class Expired:
    """Partitions that have expired, the oldest first, each with the moment in which it expired; those that are `kept`
    although they have, with the reason; and when the next one expires.
    """

    gone: Sequence[tuple[datetime, PaimonPartition]]
    kept: Sequence[tuple[PaimonPartition, str]]
    next_at: datetime | None


def term_of(schema: Schema, options: TtlOptions, table: PaimonTableOptions) -> PartitionTerm | None:
    """Return the term; None if none is set. Raises ValueError for a strategy or a formatter that is not known here."""
    own = schema.options.partitions
    retain = own.expiration_time if options.retain is None else options.retain
    if retain is None:
        return None
    strategy = own.expiration_strategy if options.strategy is None else options.strategy.value
    if strategy not in set(ExpirationStrategy):
        raise ValueError(f"partition.expiration-strategy is {shown(strategy)}, which is not known here")
    return PartitionTerm(
        retain=retain, by_values=strategy == BY_VALUES, times=times_by(options, own), outage=table.longest_outage
    )


def expired(partitions: Iterable[PaimonPartition], changes: Changes, term: PartitionTerm, now: datetime) -> Expired:
    """Judge every partition."""
    gone, kept, later = list[tuple[datetime, PaimonPartition]](), list[tuple[PaimonPartition, str]](), list[datetime]()
    for partition in partitions:
        at = _expires_at(partition, changes, term)
        if at is None:
            continue
        until = changes.latest(partition.row) + term.outage
        if now <= at:
            later.append(max(at, until))
        elif now <= until:
            kept.append(
                (partition, f"rows may have come into it within longest_outage ({format_duration(term.outage)})")
            )
            later.append(until)
        else:
            gone.append((at, partition))
    gone.sort(key=lambda pair: (pair[0], pair[1].row))
    return Expired(gone=gone, kept=kept, next_at=min(later, default=None))


def _expires_at(partition: PaimonPartition, changes: Changes, term: PartitionTerm) -> datetime | None:
    """Return when a partition expires; None if it never does, because its values tell no time."""
    if partition.name is None:
        return None
    by_values = age_counts_from(time_of_name(partition.name, term.times)) if term.by_values else None
    since = by_values if term.by_values else changes.latest(partition.row)
    return None if since is None else _after(since, term.retain)


# Whether a partition is done, by the rule of Paimon's own trigger.
#
# Source: `org.apache.paimon.flink.sink.listener.PartitionMarkDoneTrigger` of Paimon 1.3.1: a partition is done if the
# later of its last change and the end of its time is more than the idle time ago.


@dataclass(frozen=True, kw_only=True, slots=True)
class DoneRule:
    """What all partitions of a table are judged by. Without an `interval` their times do not matter. If `compacted`,
    files of level 0 hold a partition back.
    """

    idle: timedelta
    interval: timedelta | None
    times: PartitionTimeOptions
    compacted: bool


class Waits(NamedTuple):
    """Why a partition is not done, and when time alone may change that."""

    reason: str
    until: datetime | None = None


def done_rule(schema: Schema, options: PartitionCommitOptions) -> DoneRule | None:
    """Return the rule; None if no idle time is set. Raises ValueError for a formatter that is not read here."""
    table = schema.options.partitions
    idle = table.idle_time if options.idle_time is None else options.idle_time
    if idle is None:
        return None
    return DoneRule(
        idle=idle,
        interval=table.time_interval if options.time_interval is None else options.time_interval,
        times=times_by(options, table),
        compacted=schema.has_key and (options.compacted_first or schema.options.hides_level_0),
    )


def why_waiting(partition: PaimonPartition, changes: Changes, rule: DoneRule, now: datetime) -> Waits | None:
    """Return why a partition is not done; None if it is, whether it has a marker or not."""
    if partition.name is None:
        return Waits("it has an empty value, or one of a type that is not read here")
    ends = None
    if rule.interval is not None:
        time = time_of_name(partition.name, rule.times)
        ends = None if time is None else _after(time, rule.interval)
        if ends is None:
            return Waits("its values tell no time")
    latest = changes.latest(partition.row)
    done_at = _after(latest if ends is None else max(latest, ends), rule.idle)
    if done_at is None or now <= done_at:
        return Waits("rows came into it, or its time ended, within the idle time", done_at)
    if rule.compacted and partition.level_0:
        return Waits(f"readers do not see {partition.level_0} files of level 0 before a compaction")
    return None


def _after(time: datetime, by: timedelta) -> datetime | None:
    try:
        return time + by
    except OverflowError:
        return None


def is_marked(partition: PaimonPartition, changes: Changes, done: Done | None) -> bool:
    """Whether a partition has a marker, and no rows came since."""
    return done is not None and not changes.came_after(partition.row, done)


# What partition commit and ttl have to do on a Paimon table, and what an operator should know of its partitions.

_MOST_READ = 5000
"""So many markers are read in one look, those of the partitions that rest for the longest time first."""

_MOST_SHOWN = 5
_LONGEST_NAME = 200


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
    judged = [(partition, why_waiting(partition, changes, rule, now)) for partition in partitions_of(totals, schema)]
    done = [partition for partition, why in judged if why is None]
    done.sort(key=lambda partition: (changes.latest(partition.row), partition.row))
    waiting = [(partition, why) for partition, why in judged if why is not None]
    unknown = [partition for partition in done if not is_marked(partition, changes, known.get(partition.row))]
    read = read_markers(location, unknown[:_MOST_READ], storage)
    due = [
        partition for partition in unknown[:_MOST_READ] if not is_marked(partition, changes, read.get(partition.row))
    ]
    now_known = {partition.row: known[partition.row] for partition in done if partition.row in known} | dict(read)
    return Marking(
        due=due,
        marked=len(done) - len(due) - len(unknown[_MOST_READ:]),
        left=len(unknown[_MOST_READ:]),
        waits=[f"{called(partition)}: {why.reason}" for partition, why in waiting[:_MOST_SHOWN]],
        next_at=min((why.until for _, why in waiting if why.until is not None), default=None),
        known=now_known,
    )


def marking_needs(marking: Marking, changes: Changes, now: datetime) -> ServiceNeeds:
    """Add up what partition commit has to do."""
    summary = f"{counted(len(marking.due), 'partition')} to mark as done, {marking.marked} marked"
    left = (f"the markers of {counted(marking.left, 'partition')} are read by the next looks",) if marking.left else ()
    notes = (summary, *left, *marking.waits)
    changes_at = now if marking.left else marking.next_at
    if marking.due:
        backlog = _backlog(
            marking.due, min(changes.latest(partition.row) for partition in marking.due), exact=not marking.left
        )
        return ServiceNeeds(backlog=backlog, notes=notes, changes_at=changes_at)
    why = f"no partition is to be marked as done ({marking.waits[0] if marking.waits else summary})"
    return ServiceNeeds(rest=NotDue(reason=why, again_at=changes_at), notes=notes, changes_at=changes_at)


def ttl_needs(totals: Totals, schema: Schema, changes: Changes, term: PartitionTerm, now: datetime) -> ServiceNeeds:
    """Add up what ttl has to do."""
    expiry = expired(partitions_of(totals, schema), changes, term, now)
    waits = tuple(
        f"{called(partition)} has expired, and is kept: {why}" for partition, why in expiry.kept[:_MOST_SHOWN]
    )
    if not expiry.gone:
        reason = waits[0] if waits else "no partition has expired"
        rest = NotDue(reason=reason, again_at=expiry.next_at)
        return ServiceNeeds(rest=rest, notes=waits, changes_at=expiry.next_at)
    gone = [partition for _, partition in expiry.gone]
    files, size, rows = (
        sum(partition.files for partition in gone),
        sum(partition.bytes for partition in gone),
        sum(partition.rows for partition in gone),
    )
    summary = (
        f"{counted(len(gone), 'partition')} expired, with {counted(files, 'file')}, {format_size(size)}, "
        f"{counted(rows, 'row')}, the oldest is {called(gone[0])}"
    )
    backlog = _backlog(gone, expiry.gone[0][0], exact=True)
    return ServiceNeeds(backlog=backlog, notes=(summary, *waits), changes_at=expiry.next_at)


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
        files=sum(partition.files for partition in partitions),
        bytes=sum(partition.bytes for partition in partitions),
        exact=exact,
    )
