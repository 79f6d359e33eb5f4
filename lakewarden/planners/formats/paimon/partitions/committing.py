"""Whether a partition is done, by the rule of Paimon's own trigger. Pure.

Source: `org.apache.paimon.flink.sink.listener.PartitionMarkDoneTrigger` of Paimon 1.3.1: a partition is done if the
later of its last change and the end of its time is more than the idle time ago.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.formats.paimon.backlog.manifests_read import Changes
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.service_options import PartitionCommitOptions
from lakewarden.planners.formats.paimon.partitions.names import PaimonPartition, time_of_name, times_by
from lakewarden.planners.formats.paimon.writers import Done
from lakewarden.planners.partitions import PartitionTimeOptions


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


def resting(
    partitions: Iterable[PaimonPartition], changes: Changes, rule: DoneRule, now: datetime
) -> tuple[Sequence[PaimonPartition], Sequence[tuple[PaimonPartition, Waits]]]:
    """Return the partitions that are done, those that rest for the longest time first, and the others with the
    reason.
    """
    done, waiting = list[PaimonPartition](), list[tuple[PaimonPartition, Waits]]()
    for partition in partitions:
        why = why_waiting(partition, changes, rule, now)
        if why is None:
            done.append(partition)
        else:
            waiting.append((partition, why))
    done.sort(key=lambda partition: (changes.latest(partition.row), partition.row))
    return done, waiting
