"""Which writes in flight may meet a change of some partitions (docs/safety.md). Pure.

A write says in its inflight file which partitions it will write to (`touches.py`). Until then, and for good where its
engine never says it (Flink, a bulk insert), it may touch any.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.view import WriterActivity


def silent_writes(writers: WriterActivity, now: datetime) -> tuple[Instant, ...]:
    """Return the writes in flight that may go on, and do not say which partitions they touch."""
    return tuple(w for w in writers.in_flight if w.time not in writers.touching and w.may_be_alive(now))


def touched_in_flight(writers: WriterActivity) -> frozenset[str]:
    """Return the partitions that writes in flight say they touch. One that will not go on counts, too: Hudi compares
    our commit with what it has left.
    """
    return frozenset().union(*(writers.touching.get(write.time, frozenset()) for write in writers.in_flight))


def meeting(writers: WriterActivity, partitions: Collection[str], now: datetime) -> tuple[Instant, ...]:
    """Return the writes in flight that may go on and touch, or may touch, one of the partitions."""
    anything = frozenset(partitions)
    return tuple(
        write
        for write in writers.in_flight
        if write.may_be_alive(now) and not writers.touching.get(write.time, anything).isdisjoint(partitions)
    )


def does_not_say(write: Instant) -> str:
    """Return why a write is in the way that may touch anything, and the setting that would let us pass it."""
    return (
        f"write {write.time} in flight does not say which partitions it touches "
        "(where such writes touch only what was written to lately, set silent_writes_touch: warm)"
    )
