"""Which snapshots may expire, and what holds the others. Pure.

The snapshots of a table expire from the oldest on, without a gap: Paimon's readers count on that. So whatever holds one
snapshot holds all that are younger.

Source: `org.apache.paimon.table.ExpireSnapshotsImpl` and `operation.FileStoreCommitImpl.filterCommitted` of Paimon
1.3.1: a restored job looks for its newest commit in the snapshots, and commits again what it does not find.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from lakewarden.planners.formats.paimon.deletion.names import FileNames
from lakewarden.planners.formats.paimon.metadata.files import VanishedError
from lakewarden.planners.formats.paimon.metadata.history import History, References, what_names_it
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.options.core_options import CoreOptions
from lakewarden.planners.formats.paimon.options.service_options import CleanOptions
from lakewarden.planners.formats.paimon.options.table_options import PaimonTableOptions
from lakewarden.planners.formats.paimon.writers import CommitUser


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
    hold = min(_holds(references, users, rule, now), default=None, key=lambda hold: hold.first)
    if hold is None or hold.first >= free:
        return Retention(beyond=free - history.oldest, first_kept=free, next_at=next_at, held_by=None)
    first = max(history.oldest, hold.first)
    return Retention(beyond=first - history.oldest, first_kept=first, next_at=hold.until, held_by=hold.by)


def _holds(references: References, users: Sequence[CommitUser], rule: Rule, now: datetime) -> Iterator[Hold]:
    for consumer in references.consumers:
        yield Hold(consumer.next, f"the consumer {consumer.name[:80]}", None)
    streaming = [user for user in users if user.is_streaming]
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
    oldest_pair = [(history.oldest, read[0].at)] if read[0].id > history.oldest else []
    for number, superseded in [*oldest_pair, *((earlier.id, later.at) for earlier, later in pairwise(read))]:
        if number >= limit:
            break
        age = rule.outage if number <= newest - rule.most else rule.age
        if now < superseded + age:
            return number, superseded + age
    return limit, None


# Which files go with the snapshots that expire: those that only they have.


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """The data files that something needs that stays, by their names alone, and the other files that it has, by their
    paths below the table.
    """

    data: frozenset[str]
    metadata: frozenset[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Expiring:
    """A snapshot that expires, the data files that go with it, and the other files in the order of their deletion."""

    snapshot: Snapshot
    data: frozenset[str]
    metadata: tuple[str, ...]


def needed_by(kept: Sequence[Snapshot], roots: Mapping[str, Snapshot], names: FileNames) -> Needed:
    """Return what the kept snapshots of the table need, the oldest first, and what tags and branches need, by their
    files.

    Of the snapshots between the first and the newest it is enough to know what they have added: what they need besides
    the first one has. Raises what reading raises: all of it must be read.
    """
    data, metadata = set[str](), set[str]()
    for snapshot in {kept[0].id: kept[0], kept[-1].id: kept[-1]}.values():
        data |= names.live(snapshot)
    for snapshot in kept:
        data |= names.added(snapshot) | names.changelog(snapshot)
        metadata.update(names.metadata(snapshot))
    for file, snapshot in roots.items():
        try:
            data |= names.live(snapshot) | _changelog_of(snapshot, names)
            metadata.update(_metadata_of(snapshot, names))
        except VanishedError as gone:
            raise VanishedError(f"{gone}. {what_names_it(file)}") from gone
    return Needed(data=frozenset(data), metadata=frozenset(metadata))


def expiring(gone: Sequence[Snapshot], kept: Sequence[Snapshot], needed: Needed, names: FileNames) -> list[Expiring]:
    """Return the snapshots that expire, the oldest first, each with its files.

    A snapshot takes along the data files that the next one has deleted, and its changelog. Its other files go with the
    last of the snapshots that has them. Of the oldest snapshots a killed run may have left nothing but their files:
    what cannot be named any more, that run has deleted.
    """
    if not gone:
        return []
    metadata = [_or_nothing(names, snapshot) for snapshot in gone]
    left = Counter(file for files in metadata for file in set(files))
    expiring_snapshots = list[Expiring]()
    for snapshot, after, files in zip(gone, [*gone[1:], kept[0]], metadata, strict=True):
        left.subtract(set(files))
        data = _gone_since(snapshot, after, names) - needed.data
        own = tuple(file for file in files if not left[file] and file not in needed.metadata)
        expiring_snapshots.append(Expiring(snapshot=snapshot, data=frozenset(data), metadata=own))
    return expiring_snapshots


def _gone_since(snapshot: Snapshot, after: Snapshot, names: FileNames) -> set[str]:
    try:
        data = names.deleted(after)
    except VanishedError:
        data = set()
    try:
        return data | names.changelog(snapshot)
    except VanishedError:
        return data


def _or_nothing(names: FileNames, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the other files of a snapshot, as far as they can still be named."""
    try:
        return names.metadata(snapshot)
    except VanishedError:
        lists = (snapshot.base, snapshot.delta, snapshot.changelog, snapshot.index)
        return tuple(f"manifest/{name}" for name in lists if name is not None)


def _changelog_of(root: Snapshot, names: FileNames) -> set[str]:
    """Return the changelog of a tag. An expiry of Paimon's own deletes it although the tag names it."""
    try:
        return names.changelog(root)
    except VanishedError:
        return set()


def _metadata_of(root: Snapshot, names: FileNames) -> tuple[str, ...]:
    if root.changelog is None:
        return names.metadata(root)
    try:
        names.listed(root.changelog, None)
    except VanishedError:
        return names.metadata(replace(root, changelog=None))
    return names.metadata(root)
