"""Which snapshots may expire, and what holds the others. Pure.

The snapshots of a table expire from the oldest on, without a gap: Paimon's readers count on that. So whatever holds one
snapshot holds all that are younger.

Source: `org.apache.paimon.table.ExpireSnapshotsImpl` and `operation.FileStoreCommitImpl.filterCommitted` of Paimon
1.3.1: a restored job looks for its newest commit in the snapshots, and commits again what it does not find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from lakewarden.planners.formats.paimon.metadata.history import History
from lakewarden.planners.formats.paimon.metadata.references import References
from lakewarden.planners.formats.paimon.options.core_options import CoreOptions
from lakewarden.planners.formats.paimon.options.service_options import CleanOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.paimon.writers.commit_users import CommitUser


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """By what snapshots expire. A snapshot has an age from the moment in which the next one was committed.

    At least the newest `least` stay, and all with less than `age`; beyond the newest `most` all with less than
    `outage`. The last snapshot of each streaming job stays for `restores`, and that of the job that committed last for
    ever if `keep_last`.
    """

    age: timedelta
    outage: timedelta
    restores: timedelta
    least: int
    most: int
    keep_last: bool


def rule_of(core: CoreOptions, clean: CleanOptions, table: PaimonTableOptions) -> Rule:
    """Return the rule of a table: what its owner sets counts before its own options, and no outage counts less."""
    age = core.retained_for if clean.max_snapshot_age is None else clean.max_snapshot_age
    least = clean.min_snapshots_to_keep
    return Rule(
        age=max(age, table.longest_outage),
        outage=table.longest_outage,
        restores=table.flink_restores,
        least=core.retained_least if least is None else least,
        most=core.retained_most,
        keep_last=table.keep_last_flink_commit,
    )


class Hold(NamedTuple):
    """What holds a snapshot, in words, and until when; None without an end that is known."""

    first: int
    by: str
    until: datetime | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """How many snapshots may go, which is the first that stays, and when time alone lets the next one go. `held_by` is
    what holds snapshots that else would go.
    """

    beyond: int
    first_kept: int
    next_at: datetime | None
    held_by: str | None


def beyond_retention(
    history: History, references: References, users: Sequence[CommitUser], rule: Rule, now: datetime
) -> Retention:
    """Return which snapshots may expire."""
    newest = history.newest
    if newest is None:
        return Retention(beyond=0, first_kept=0, next_at=None, held_by=None)
    free, next_at = _first_young(history, newest.id, rule, now)
    hold = min(_holds(references, users, rule, now), default=None, key=lambda one: one.first)
    if hold is None or hold.first >= free:
        return Retention(beyond=free - history.oldest, first_kept=free, next_at=next_at, held_by=None)
    first = max(history.oldest, hold.first)
    return Retention(beyond=first - history.oldest, first_kept=first, next_at=hold.until, held_by=hold.by)


def _holds(references: References, users: Sequence[CommitUser], rule: Rule, now: datetime) -> Iterator[Hold]:
    for consumer in references.consumers:
        yield Hold(consumer.next, f"the consumer {consumer.name[:80]}", None)
    streaming = [one for one in users if one.is_streaming]
    for place, user in enumerate(streaming):
        ends = user.newest.at + rule.restores
        if (place == 0 and rule.keep_last) or now < ends:
            until = None if place == 0 and rule.keep_last else ends
            yield Hold(user.newest.id, f"the streaming job with the commit user {user.name[:80]}", until)


def _first_young(history: History, newest: int, rule: Rule, now: datetime) -> tuple[int, datetime | None]:
    """Return the first snapshot that stays because of its age, or because of the least number; and when it may go.

    Of those that were not read the oldest that was read tells: they are older.
    """
    limit = max(history.oldest, newest - rule.least + 1)
    read = history.snapshots
    known = [(history.oldest, read[0].at)] if read[0].id > history.oldest else []
    for number, superseded in [*known, *((one.id, later.at) for one, later in pairwise(read))]:
        if number >= limit:
            break
        age = rule.outage if number <= newest - rule.most else rule.age
        if now < superseded + age:
            return number, superseded + age
    return limit, None
