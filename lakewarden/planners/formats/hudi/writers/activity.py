"""What a table's writers are doing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median_low

from lakewarden.planners.formats.hudi.metadata.commits import partitions_to_come
from lakewarden.planners.formats.hudi.metadata.timeline import Known
from lakewarden.planners.formats.hudi.metadata.tokens import Reading
from lakewarden.planners.model.instant import Instant, InstantKind, Timeline
from lakewarden.planners.model.view import Touch, WriteFailure, WriterActivity

_WRITES_TO_TELL_A_CADENCE = 20


def writer_activity(
    timeline: Timeline,
    *,
    failures: tuple[WriteFailure, ...],
    touches: Mapping[str, Touch] | None,
    touching: Mapping[str, frozenset[str]],
    non_blocking: bool,
) -> WriterActivity:
    """Return the writes in flight, the newest completed write and the usual time between two writes, with what was
    read of the commits.
    """
    done = [i for i in timeline.instants if not i.pending and i.stands_for is InstantKind.WRITE]
    begun = [i.requested_at for i in done[-_WRITES_TO_TELL_A_CADENCE:]]
    gaps = [later - earlier for earlier, later in pairwise(begun)]
    return WriterActivity(
        in_flight=timeline.writes_in_flight(),
        last_commit_at=max((i.completed_at or i.requested_at for i in done), default=None),
        usual_interval=median_low(gaps) if gaps else None,
        touches=touches,
        touching=touching,
        failures=failures,
        non_blocking=non_blocking,
    )


# Which partitions writers touch. A clustering has to avoid them.


def touches(known: Sequence[Known], instants: Sequence[Instant]) -> Mapping[str, Touch] | None:
    """Return the newest completed write into each partition; None if what one of them wrote is not known.

    Services only rewrite rows, so they touch nothing. `instants` are those of `known`, one by one.
    """
    newest: dict[str, Touch] = {}
    for known_instant, instant in zip(known, instants, strict=True):
        if instant.pending or instant.stands_for is not InstantKind.WRITE:
            continue
        if known_instant.written is None:
            return None
        touch = {updates: _touch(known_instant, instant, updates=updates) for updates in (False, True)}
        for partition, updates in known_instant.written.partitions.items():
            if partition not in newest or newest[partition].at <= touch[updates].at:
                newest[partition] = touch[updates]
    return newest


def _touch(known_instant: Known, instant: Instant, *, updates: bool) -> Touch:
    """Return a write's touch. Layout 1 has no completion time, so there it is the time of the completed file. In a
    copied table that time says nothing, and is rather too late than too early.
    """
    at = instant.completed_at
    if at is None:
        at = instant.requested_at if known_instant.files.completed is None else known_instant.files.completed.modified
    return Touch(at=max(at, instant.requested_at), instant=instant.time, updates=updates)


def touching(
    known_instants: Sequence[Known], instants: Sequence[Instant], reading: Reading
) -> Mapping[str, frozenset[str]]:
    """Return the partitions that the writes in flight say they will write to, by the time of the write. Writes that do
    not say it are left out.
    """
    by_write = {}
    for known_instant, instant in zip(known_instants, instants, strict=True):
        entry = known_instant.files.inflight
        if entry is None or not instant.pending or instant.stands_for is not InstantKind.WRITE:
            continue
        partitions = reading.fact_if_whole(entry, partitions_to_come)
        if partitions is not None:
            by_write[instant.time] = partitions
    return by_write


# Which writes in flight may meet a change of some partitions (docs/safety.md). Pure.
#
# A write names in its inflight file the partitions that it will write to (`metadata/commits.py`). Until then it may
# touch any partition. Some engines never name them (Flink, a bulk insert). Their writes may touch any partition, too.

_READS_NO_MORE_AFTER = timedelta(minutes=10)
"""A write without a heartbeat may be dead. At this age it is not waited for any more."""

BE_LAZY = (
    "set hoodie.clean.failed.writes.policy=LAZY (before 1.0: hoodie.cleaner.policy.failed.writes) on all the table's "
    "writers, which their lock requires anyway, and declare options: {failed_writes: lazy}"
)


def may_read(write: Instant, now: datetime) -> bool:
    """Whether a write in flight may still read the plans that it has found on the timeline."""
    if write.guarded_until is None:
        return now - write.requested_at < _READS_NO_MORE_AFTER
    return write.may_be_alive(now)


def how_to_end(write: Instant) -> str:
    """Return in words what an operator does about a write in flight that is in the way."""
    if write.guarded_until is None:
        return f"it has no heartbeat; if it is dead, {BE_LAZY}, and let a rollback undo it"
    return "let the writers pause; if it does not end, stop the session that began it, and let a rollback undo it"


def silent_writes(writers: WriterActivity, now: datetime) -> tuple[Instant, ...]:
    """Return the writes in flight that may be alive and do not say which partitions they touch."""
    return tuple(w for w in writers.in_flight if w.time not in writers.touching and w.may_be_alive(now))


def touched_in_flight(writers: WriterActivity) -> frozenset[str]:
    """Return the partitions that writes in flight say they touch. A dead write counts, too, because Hudi compares a
    commit with what the write has left.
    """
    return frozenset().union(*(writers.touching.get(write.time, frozenset()) for write in writers.in_flight))


def meeting(writers: WriterActivity, partitions: Collection[str], now: datetime) -> tuple[Instant, ...]:
    """Return the writes in flight that may be alive and touch, or may touch, one of the partitions."""
    anything = frozenset(partitions)
    return tuple(
        write
        for write in writers.in_flight
        if write.may_be_alive(now) and not writers.touching.get(write.time, anything).isdisjoint(partitions)
    )


def does_not_say(write: Instant) -> str:
    """Return in words that a write which may touch anything must be waited for, and the setting that changes this."""
    return (
        f"write {write.time} in flight does not say which partitions it touches "
        "(if such writes touch only what was written to lately, set silent_writes_touch: warm)"
    )
