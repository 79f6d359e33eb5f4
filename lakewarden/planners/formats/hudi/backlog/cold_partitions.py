"""Which partitions a clustering may take: those that no writer has touched for a while (docs/hudi.md). Pure.

A pending clustering makes a writer's update of its file groups fail. Partitions without a recent writer are safe. A
clustering that finds none yields. If a writer has touched a partition of a plan, the plan is withdrawn (`disturbed`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.hudi.writers.activity import touched_in_flight
from lakewarden.planners.model.instant import Instant, InstantKind, Timeline
from lakewarden.planners.model.view import Touch, WriterActivity

_SEPARATOR = ","  # between the names of `hoodie.clustering.plan.strategy.partition.selected`, which cannot be escaped


@dataclass(frozen=True, kw_only=True, slots=True)
class ColdPartitions:
    """The partitions that may be taken now, in order. `next_at` is when the first of the others becomes cold, if it is
    not touched again.
    """

    partitions: tuple[str, ...]
    next_at: datetime | None = None


def cold_partitions(
    partitions: Iterable[str],
    touches: Mapping[str, Touch],
    *,
    touching: frozenset[str],
    known_since: datetime | None,
    untouched_for: timedelta,
    matching: str | None,
    now: datetime,
) -> ColdPartitions:
    """Return which of a table's `partitions` (`""` alone for a table without) are cold.

    `touching` are the partitions that writes in flight are about to touch. Partitions that the timeline no longer
    shows may have been touched until it begins, at `known_since` (None: the table was never written). `matching` is
    a regular expression for the whole path. A path with a comma cannot be named to Hudi, and is never taken.
    """
    nameable = [path for path in sorted(partitions) if _SEPARATOR not in path]
    wanted = [path for path in nameable if matching is None or re.fullmatch(matching, path)]
    cold, waits = [], []
    for path in wanted:
        touched_at = touches[path].at if path in touches else known_since
        cold_at = None if touched_at is None else touched_at + untouched_for
        if path not in touching and (cold_at is None or cold_at <= now):
            cold.append(path)
        elif cold_at is not None:
            waits.append(max(cold_at, now + untouched_for) if path in touching else cold_at)
    return ColdPartitions(partitions=tuple(cold), next_at=min(waits, default=None))


def known_since(timeline: Timeline) -> datetime | None:
    """Return the moment since which the active timeline shows every write. None if it shows none.

    A saved commit may remain after its neighbours were archived, so it proves nothing.
    """
    saved = {instant.time for instant in timeline.instants if instant.stands_for is InstantKind.SAVEPOINT}
    written = (
        i for i in timeline.instants if i.stands_for is InstantKind.WRITE and not i.pending and i.time not in saved
    )
    return min((instant.requested_at for instant in written), default=None)


def disturbed(planned: frozenset[str], plan: Instant, writers: WriterActivity) -> str | None:
    """Return which write has touched one of the `planned` partitions since `plan` was made, or is about to; None if
    there is none. Writes that do not say what they touch are left to the caller.
    """
    in_flight = touched_in_flight(writers)
    for path in sorted(planned):
        touch = (writers.touches or {}).get(path)
        if touch is not None and (touch.instant > plan.time or touch.at >= plan.requested_at):
            return f"write {touch.instant} touched {_named(path)} after clustering {plan.time} was planned"
        if path in in_flight:
            return f"a write in flight touches {_named(path)}, which clustering {plan.time} would rewrite"
    return None


def _named(path: str) -> str:
    return f"partition {path}" if path else "the table"
