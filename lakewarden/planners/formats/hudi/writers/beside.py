"""Which writes in flight may meet a change of some partitions (docs/safety.md). Pure.

A write names in its inflight file the partitions that it will write to (`touches.py`). Until then it may touch any
partition. Some engines never name them (Flink, a bulk insert). Their writes may touch any partition, too.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.view import WriterActivity

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
