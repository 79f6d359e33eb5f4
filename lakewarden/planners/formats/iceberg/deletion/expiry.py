"""Which snapshots may expire, and why the others stay. Pure.

The rules of branches, tags and unreferenced snapshots are those of Iceberg's own `RemoveSnapshots`, except one: a
branch or a tag whose `max-ref-age-ms` is over stays. Iceberg would give up the name together with what it holds, and
by age alone; we expire by ids that were looked at before, and nothing that has a name is among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import attrgetter

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.iceberg.metadata.metadata import Ref, Snapshot, TableMetadata, span
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.settings import format_duration

FOR_EVER = datetime.max.replace(tzinfo=UTC)
_FIRST = datetime.min.replace(tzinfo=UTC)

_MAX_SNAPSHOT_AGE = ("history.expire.max-snapshot-age-ms", 5 * 24 * 3600 * 1000)
_MIN_SNAPSHOTS_TO_KEEP = ("history.expire.min-snapshots-to-keep", 1)

_JOB, _OPERATOR, _CHECKPOINT = "flink.job-id", "flink.operator-id", "flink.max-committed-checkpoint-id"


@dataclass(frozen=True, kw_only=True, slots=True)
class Expiry:
    """What may expire now: `ids`, the oldest first, at most as many as one run may take, and how many are `left` then.

    `kept` says of snapshots that would go by age and count why they stay. `next_at` is when, with nothing
    changing but the time, the next snapshot may go; None if none ever may.
    """

    ids: tuple[int, ...]
    left: int
    kept: tuple[str, ...]
    next_at: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class FlinkMark:
    """The newest commit of one operator of one Flink job on one branch (or off all: None). `superseded` is one of a job
    after which another has committed to the branch: a job that was redeployed bears another id.
    """

    snapshot: Snapshot
    job: str
    operator: str
    branch: Ref | None
    superseded: bool

    def stays_until(self, table_options: IcebergTableOptions) -> datetime:
        """Return until when the job, or what is restored from it, may look for this commit."""
        if self.superseded or not table_options.keep_last_flink_commit:
            return _later(self.snapshot.at, table_options.flink_restores)
        return FOR_EVER


def expirable(
    metadata: TableMetadata, options: CleanOptions, table_options: IcebergTableOptions, now: datetime
) -> Expiry:
    """Return what may expire `now`. Raises PermanentError where the table's own retention cannot be read."""
    by_rule = _by_iceberg(metadata, _Retention.of(metadata, options))
    marks = tuple(flink_marks(metadata))
    outage = _after(table_options.longest_outage)
    until = {one.id: max(by_rule[one.id], outage(one.at)) for one in metadata.snapshots}
    for mark in marks:
        until[mark.snapshot.id] = max(until[mark.snapshot.id], mark.stays_until(table_options))
        for between in _on_the_way_to(mark, metadata):
            until[between.id] = max(until[between.id], _later(mark.snapshot.at, table_options.flink_restores))
    oldest_first = sorted(metadata.snapshots, key=attrgetter("at", "sequence", "id"))
    ripe = [one.id for one in oldest_first if until[one.id] < now]
    to_come = [at for at in until.values() if now <= at < FOR_EVER]
    held = [one for one in oldest_first if by_rule[one.id] < now <= until[one.id]]
    return Expiry(
        ids=tuple(ripe[: options.max_snapshots]),
        left=max(0, len(ripe) - options.max_snapshots),
        kept=(*_tags(metadata), *_held(held, marks, table_options, now)),
        next_at=min(to_come) + timedelta(milliseconds=1) if to_come else None,
    )


def flink_marks(metadata: TableMetadata) -> Iterator[FlinkMark]:
    """Yield the newest commit of each Flink job and operator, on every branch and over all snapshots.

    A job that is restored follows the parents of its branch's head to the newest snapshot with its job id, and commits
    again what it finds nothing of (`SinkUtil.getMaxCommittedCheckpointId`). The job that committed last to a branch may
    be at work still, however long ago that was; off all branches none is.
    """
    if not any(_JOB in one.summary for one in metadata.snapshots):
        return
    found: set[tuple[int, str, str]] = set()
    for branch in (*_branches(metadata), None):
        newest = metadata.ancestors(branch.snapshot) if branch is not None else _newest_first(metadata)
        seen: set[tuple[str, str]] = set()
        last: str | None = None
        for one in newest:
            job, operator = one.summary.get(_JOB), one.summary.get(_OPERATOR, "")
            if job is None or (job, operator) in seen:
                continue
            seen.add((job, operator))
            last = last or job
            if branch is not None or (one.id, job, operator) not in found:
                found.add((one.id, job, operator))
                superseded = branch is None or job != last
                yield FlinkMark(snapshot=one, job=job, operator=operator, branch=branch, superseded=superseded)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Retention:
    """What a branch keeps that says nothing itself."""

    age: timedelta
    count: int

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
    found = counted(text)
    if found is None:
        raise PermanentError(f"the table's property {key} is {text[:40]!r}, which is no number: set it anew")
    return found


def _by_iceberg(metadata: TableMetadata, default: _Retention) -> Mapping[int, datetime]:
    """Return until when Iceberg's own rule keeps each snapshot. A branch keeps what is at its head, and from there on
    what is young enough, until it comes to one that is not.
    """
    until: dict[int, datetime] = {}
    for branch in _branches(metadata):
        aged = _after(default.age if branch.max_snapshot_age is None else branch.max_snapshot_age)
        count = branch.min_snapshots_to_keep or default.count
        at_most = FOR_EVER
        for position, one in enumerate(metadata.ancestors(branch.snapshot)):
            if position >= count:
                at_most = min(at_most, aged(one.at))
            known = until.get(one.id)
            if known is None or known < at_most:
                until[one.id] = at_most
    for ref in metadata.refs:
        until[ref.snapshot] = FOR_EVER
    aged = _after(default.age)
    for one in metadata.snapshots:
        if one.id not in until:
            until[one.id] = aged(one.at)
    return until


def _after(age: timedelta) -> Callable[[datetime], datetime]:
    """Return what tells of a time when it is of this age. Ages of 292 million years, which stand for "never", are for
    ever.
    """
    if age >= FOR_EVER - _FIRST:
        return lambda _: FOR_EVER
    last = FOR_EVER - age
    return lambda at: at + age if at < last else FOR_EVER


def _later(at: datetime, age: timedelta) -> datetime:
    return _after(age)(at)


def _branches(metadata: TableMetadata) -> Iterator[Ref]:
    return (ref for ref in metadata.refs if ref.is_branch)


def _newest_first(metadata: TableMetadata) -> Iterator[Snapshot]:
    return iter(sorted(metadata.snapshots, key=lambda one: (one.sequence, one.at), reverse=True))


def _on_the_way_to(mark: FlinkMark, metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield what lies between the head of the mark's branch and the mark: without it nobody finds the mark."""
    if mark.branch is None:
        return
    for one in metadata.ancestors(mark.branch.snapshot):
        if one.id == mark.snapshot.id:
            return
        yield one


def _tags(metadata: TableMetadata) -> Iterator[str]:
    for ref in metadata.refs:
        if not ref.is_branch and ref.snapshot in metadata.by_id:
            yield f"snapshot {ref.snapshot} has the tag {ref.name!r}"


def _held(
    held: Sequence[Snapshot], marks: Sequence[FlinkMark], table_options: IcebergTableOptions, now: datetime
) -> Iterator[str]:
    """Yield why those stay that Iceberg's own rule would let go."""
    of_flink = {mark.snapshot.id: mark for mark in marks}
    for one in held:
        if one.id in of_flink:
            yield f"snapshot {one.id} is the newest of {_whose(of_flink[one.id])}"
    others = [one for one in held if one.id not in of_flink]
    young = sum(1 for one in others if now <= _later(one.at, table_options.longest_outage))
    if young:
        yield f"{_counted(young)} younger than longest_outage ({format_duration(table_options.longest_outage)})"
    if len(others) > young:
        yield (
            f"{_counted(len(others) - young)} on the way from a branch's head to the newest of a Flink job "
            f"(flink_restores: {format_duration(table_options.flink_restores)})"
        )


def _counted(snapshots: int) -> str:
    return "1 snapshot is" if snapshots == 1 else f"{snapshots} snapshots are"


def _whose(mark: FlinkMark) -> str:
    operator = f", operator {mark.operator}" if mark.operator else ""
    checkpoint = mark.snapshot.summary.get(_CHECKPOINT)
    return f"Flink job {mark.job}{operator}" + ("" if checkpoint is None else f" (checkpoint {checkpoint})")
