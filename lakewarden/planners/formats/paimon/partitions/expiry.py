"""Whether a partition has expired, by Paimon's own strategies and one more rule. Pure.

Source: `PartitionValuesTimeExpireStrategy` and `PartitionUpdateTimeExpireStrategy` in `org.apache.paimon.partition` of
Paimon 1.3.1. The further rule: rows that came within the longest outage of a writer keep their partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.paimon.backlog.changes import Changes
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.partition_options import BY_VALUES
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.paimon.options.ttl_options import ExpirationStrategy, TtlOptions
from lakewarden.planners.formats.paimon.partitions.listed import PaimonPartition
from lakewarden.planners.formats.paimon.partitions.times import time_of_name, times_by
from lakewarden.planners.partitions.partition_time import age_counts_from
from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.settings import format_duration, shown


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
    for one in partitions:
        at = _expires_at(one, changes, term)
        if at is None:
            continue
        until = changes.latest(one.row) + term.outage
        if now <= at:
            later.append(max(at, until))
        elif now <= until:
            kept.append((one, f"rows may have come into it within longest_outage ({format_duration(term.outage)})"))
            later.append(until)
        else:
            gone.append((at, one))
    gone.sort(key=lambda pair: (pair[0], pair[1].row))
    return Expired(gone=gone, kept=kept, next_at=min(later, default=None))


def _expires_at(partition: PaimonPartition, changes: Changes, term: PartitionTerm) -> datetime | None:
    """Return when a partition expires; None if it never does, because its values tell no time."""
    if partition.name is None:
        return None
    by_values = age_counts_from(time_of_name(partition.name, term.times)) if term.by_values else None
    since = by_values if term.by_values else changes.latest(partition.row)
    try:
        return None if since is None else since + term.retain
    except OverflowError:
        return None
