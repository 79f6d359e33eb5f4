"""Which snapshots may expire, and why the others stay. Pure.

The rules of branches, tags and unreferenced snapshots are those of Iceberg's own `RemoveSnapshots`. Branches and tags
that are older than their `max-ref-age-ms` expire first (`refs.py`). No other branch or tag loses its snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from operator import attrgetter

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.iceberg.deletion.reachable import needed_until, read_by
from lakewarden.planners.formats.iceberg.deletion.refs import NamedRef, RefAge, named, ref_ages
from lakewarden.planners.formats.iceberg.deletion.refs import held as held_refs
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    FOR_EVER,
    MAIN,
    Ref,
    Snapshot,
    TableMetadata,
    after,
    later,
)
from lakewarden.planners.formats.iceberg.metadata.parsing import span
from lakewarden.planners.formats.iceberg.metadata.timeline import shown
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions, IncrementalReader
from lakewarden.planners.formats.iceberg.writers.marked_snapshots import (
    MarkedSnapshot,
    marked_snapshots,
    needed_by_sinks,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import format_duration

_MAX_SNAPSHOT_AGE = ("history.expire.max-snapshot-age-ms", 5 * 24 * 3600 * 1000)
_MIN_SNAPSHOTS_TO_KEEP = ("history.expire.min-snapshots-to-keep", 1)
_MAX_REF_AGE = ("history.expire.max-ref-age-ms", 2**63 - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Expiry:
    """What may expire now. `ids` are the snapshots of one run, the oldest first. `refs` are the branches and tags that
    expire in the same commit. `left` is how many snapshots remain for later runs.

    `kept` says why snapshots and names stay although their age and count would let them expire. `next_at` is when the
    next of them may expire if nothing changes but the time. None if none ever may.
    """

    ids: tuple[int, ...]
    refs: tuple[Ref, ...]
    left: int
    kept: tuple[str, ...]
    next_at: datetime | None


def expirable(
    metadata: TableMetadata,
    options: CleanOptions,
    table_options: IcebergTableOptions,
    now: datetime,
    *,
    among: Collection[NamedRef] | None = None,
) -> Expiry:
    """Return what may expire `now`. If `among` is given, no other branch or tag expires.

    Raises PermanentError if the table's own retention cannot be read, and NoSuchBranchError.
    """
    ages = _ref_ages(metadata, options, table_options)
    refs = tuple(age.ref for age in ages if age.stays_until < now and (among is None or named(age.ref) in among))
    if refs:
        metadata = replace(metadata, refs=tuple(ref for ref in metadata.refs if ref not in refs))
    by_rule = _by_iceberg(metadata, _Retention.of(metadata, options))
    marks = tuple(marked_snapshots(metadata, table_options.ignored_marks))
    outage = after(table_options.longest_outage)
    until = dict(by_rule)
    for snapshot in metadata.snapshots:
        if (ends := outage(snapshot.at)) > until[snapshot.id]:
            until[snapshot.id] = ends
    for needed, ends in needed_by_sinks(metadata, table_options).items():
        until[needed] = max(until[needed], ends)
    newest = {snapshot.id for branch in _branches(metadata) for snapshot in _since_the_newest_write(branch, metadata)}
    until |= dict.fromkeys(newest, FOR_EVER)
    of_readers = {reader: needed_until(reader, read_by(reader, metadata)) for reader in table_options.readers}
    for needs in of_readers.values():
        for needed, ends in needs.items():
            until[needed] = max(until[needed], ends)
    old_enough, held, at_the_end = list[int](), list[Snapshot](), list[Snapshot]()
    next_at = min((age.stays_until for age in ages if age.stays_until >= now), default=FOR_EVER)
    for snapshot in sorted(metadata.snapshots, key=attrgetter("at", "sequence", "id")):  # there may be 50,000
        ends = until[snapshot.id]
        if ends < now:
            old_enough.append(snapshot.id)
            continue
        next_at = min(next_at, ends)
        if by_rule[snapshot.id] < now:
            (at_the_end if snapshot.id in newest else held).append(snapshot)
    return Expiry(
        ids=tuple(old_enough[: options.max_snapshots]),
        refs=refs,
        left=max(0, len(old_enough) - options.max_snapshots),
        kept=(
            *held_refs(ages, now),
            *_tags(metadata),
            *(
                f"snapshot {snapshot.id} is needed by a stream that has read the newest write"
                for snapshot in at_the_end
            ),
            *_held(held, marks, of_readers, table_options, now),
        ),
        next_at=None if next_at == FOR_EVER else next_at + timedelta(milliseconds=1),
    )


def _ref_ages(metadata: TableMetadata, options: CleanOptions, table_options: IcebergTableOptions) -> tuple[RefAge, ...]:
    if not options.expire_refs:
        return ()
    flink_until: dict[str, datetime] = {}
    for mark in marked_snapshots(metadata, table_options.ignored_marks):
        if mark.branch is not None:
            is_of_a_job = bool(mark.mark.kind)
            restored = later(mark.snapshot.at, table_options.flink_restores)
            ends = mark.stays_until(table_options) if is_of_a_job else restored
            flink_until[mark.branch.name] = max(ends, flink_until.get(mark.branch.name, ends))
    by_default = span(_number(metadata, *_MAX_REF_AGE))
    return tuple(ref_ages(metadata, table_options, by_default=by_default, flink_until=flink_until))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Retention:
    """What a branch keeps if it has no retention of its own."""

    age: timedelta
    count: int

    def of_branch(self, branch: Ref) -> _Retention:
        """Return what a branch keeps: its own retention counts first."""
        return _Retention(
            age=self.age if branch.max_snapshot_age is None else branch.max_snapshot_age,
            count=self.count if branch.min_snapshots_to_keep is None else branch.min_snapshots_to_keep,
        )

    @staticmethod
    def of(metadata: TableMetadata, options: CleanOptions) -> _Retention:
        age = span(_number(metadata, *_MAX_SNAPSHOT_AGE))
        count = _number(metadata, *_MIN_SNAPSHOTS_TO_KEEP)
        return _Retention(
            age=age if options.max_snapshot_age is None else options.max_snapshot_age,
            count=count if options.min_snapshots_to_keep is None else options.min_snapshots_to_keep,
        )


def _number(metadata: TableMetadata, key: str, default: int) -> int:
    text = metadata.properties.get(key, str(default))
    number = counted(text)
    if number is None:
        raise PermanentError(f"the table's property {key} is {text[:40]!r}, which is not a number: set it again")
    return number


def _by_iceberg(metadata: TableMetadata, default: _Retention) -> Mapping[int, datetime]:
    """Return until when Iceberg's own rule keeps each snapshot. A branch keeps its head. From there it keeps the
    parents that are young enough, up to the first one that is not.
    """
    until: dict[int, datetime] = {}
    for branch in _branches(metadata):
        own = default.of_branch(branch)
        aged, count = after(own.age), own.count
        others, until = until, {}
        at_most = FOR_EVER
        for position, snapshot in enumerate(metadata.ancestors(branch.snapshot)):
            if position >= count and (ends := aged(snapshot.at)) < at_most:
                at_most = ends
            until[snapshot.id] = at_most
        until |= {
            snapshot_id: at for snapshot_id, at in others.items() if snapshot_id not in until or until[snapshot_id] < at
        }
    for ref in metadata.refs:
        until[ref.snapshot] = FOR_EVER
    aged = after(default.age)
    for snapshot in metadata.snapshots:
        if snapshot.id not in until:
            until[snapshot.id] = aged(snapshot.at)
    return until


def _branches(metadata: TableMetadata) -> Iterator[Ref]:
    return (ref for ref in metadata.refs if ref.is_branch)


def _since_the_newest_write(branch: Ref, metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield the newest snapshot of a branch that is no rewrite, and those after it. A stream that has read everything
    stands there (`SparkMicroBatchStream`), and goes on with the next write.
    """
    for ancestor in metadata.ancestors(branch.snapshot):
        yield ancestor
        if ancestor.operation != "replace":
            return


def _tags(metadata: TableMetadata) -> Iterator[str]:
    for ref in metadata.refs:
        if not ref.is_branch and ref.snapshot in metadata.by_id:
            yield f"snapshot {ref.snapshot} has the tag {ref.name!r}"


def _held(
    held: Sequence[Snapshot],
    marks: Sequence[MarkedSnapshot],
    of_readers: Mapping[IncrementalReader, Mapping[int, datetime]],
    table_options: IcebergTableOptions,
    now: datetime,
) -> Iterator[str]:
    """Yield why snapshots stay that Iceberg's own rule would expire. Each reader has a sentence of its own: several
    readers may need one snapshot.
    """
    of_sinks = {
        marked_snapshot.snapshot.id: shown(marked_snapshot.mark, marked_snapshot.snapshot.summary)
        for marked_snapshot in marks
    }
    for snapshot in held:
        if snapshot.id in of_sinks:
            yield f"snapshot {snapshot.id} is the newest of {of_sinks[snapshot.id]}"
    others = [snapshot for snapshot in held if snapshot.id not in of_sinks]
    young = {snapshot.id for snapshot in others if now <= later(snapshot.at, table_options.longest_outage)}
    if young:
        yield f"{_counted(len(young))} younger than longest_outage ({format_duration(table_options.longest_outage)})"
    read = set[int]()
    for reader, until in of_readers.items():
        needed = [
            snapshot
            for snapshot in held
            if snapshot.id not in young and snapshot.id in until and now <= until[snapshot.id]
        ]
        if needed:
            yield _read_by(reader, needed)
            read |= {snapshot.id for snapshot in needed}
    between = [snapshot for snapshot in others if snapshot.id not in young and snapshot.id not in read]
    if between:
        way = f"{_counted(len(between))} on the way from a branch's head to the newest of a sink"
        ends = {
            marked_snapshot.mark
            for marked_snapshot in marks
            if marked_snapshot.snapshot.id in {snapshot.id for snapshot in held}
        }
        keys = sorted({mark.part for mark in ends if not mark.kind})
        if keys:  # to say that no sink runs would take the guard from a job of Flink, too
            patterns = ", ".join(
                dict.fromkeys(f'"{key.rpartition(".")[0]}.*"' if "." in key else f'"{key}"' for key in keys)
            )
            yield f"{way}: if no sink looks for {', '.join(keys)}, set ignored_marks: [{patterns}]"
        if any(mark.kind for mark in ends) or not keys:
            yield (
                f"{way}: if that sink is gone, set keep_last_flink_commit: false, and they stay for flink_restores "
                f"({format_duration(table_options.flink_restores)})"
            )


def _read_by(reader: IncrementalReader, needed: Sequence[Snapshot]) -> str:
    branch = MAIN if reader.branch == MAIN else f"the branch {reader.branch!r}"
    return (
        f"{_counted(len(needed))} needed by reader {reader.name} (a {reader.kind}, at most "
        f"{format_duration(reader.longest_lag)} behind): all of {branch} since snapshot {needed[0].id} stays"
    )


def _counted(snapshots: int) -> str:
    return "1 snapshot is" if snapshots == 1 else f"{snapshots} snapshots are"
