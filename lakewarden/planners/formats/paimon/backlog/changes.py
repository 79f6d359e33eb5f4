"""When rows came into each partition last, as far as the table tells.

The commits of writers tell it exactly, as long as their snapshots are kept. For the time before them there is a bound:
no rows came later than the first kept snapshot, nor later than the newest file was written. The time of a file has no
zone: it is the local time of its writer (`DataFileMeta.creationTime` of Paimon 1.3.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from lakewarden.planners.formats.paimon.backlog.manifests_read import ManifestReading
from lakewarden.planners.formats.paimon.metadata.files import VanishedError
from lakewarden.planners.formats.paimon.metadata.history import History
from lakewarden.planners.formats.paimon.metadata.manifests import Digest
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.formats.paimon.writers.markers import Done

_WEST, _EAST = timedelta(hours=12), timedelta(hours=14)
"""So far behind and before UTC is local time anywhere."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST = datetime(9000, 1, 1, tzinfo=UTC)


class Came(NamedTuple):
    """The newest commit that brought rows into a partition."""

    snapshot: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Changes:
    """What is known of all partitions. `came` has those into which a commit from the snapshot `first` on brought rows.
    The rows of earlier commits came until `since`. `created` are the times of the newest files, in milliseconds of a
    local time.
    """

    first: int
    newest: int
    since: datetime
    came: Mapping[bytes, Came] = field(default_factory=dict)
    created: Mapping[bytes, int] = field(default_factory=dict)

    def latest(self, partition: bytes) -> datetime:
        """Return a moment after which no rows came into a partition."""
        came = self.came.get(partition)
        if came is not None:
            return came.at
        created = self._created(partition)
        return self.since if created is None else min(self.since, created + _WEST)

    def came_after(self, partition: bytes, done: Done) -> bool:
        """Whether rows came after a partition was done. If the snapshots of that time are gone, only a file counts that
        is newer in every time zone: it may be of a compaction, which brings no rows.
        """
        came = self.came.get(partition)
        known = came is not None and came.at > done.at
        if done.snapshot is not None and done.snapshot <= self.newest:
            known = known or (came is not None and came.snapshot > done.snapshot)  # not so after a rollback
            is_whole = self.first <= done.snapshot + 1
        else:
            is_whole = self.since <= done.at
        if known or is_whole or came is not None:
            return known
        created = self._created(partition)
        return created is not None and created - _EAST > done.at

    def _created(self, partition: bytes) -> datetime | None:
        created = self.created.get(partition)
        if created is None:
            return None
        return min(_EPOCH + timedelta(milliseconds=max(0, min(created, 2**47))), _LAST)


def changes_of(reading: ManifestReading, history: History, known: dict[str, frozenset[bytes]]) -> Changes | None:
    """Return when rows came into the partitions. `known` are the partitions of commits that were looked at before, by
    their manifest lists. None for a table without a snapshot.
    """
    newest = history.newest
    if newest is None:
        return None
    came: dict[bytes, Came] = {}
    first, since = newest.id + 1, newest.at
    for one in reversed(history.snapshots):
        since = one.at
        if one.is_write:
            partitions = known.get(one.delta) if one.delta in known else _looked_at(one, reading)
            if partitions is None:
                break
            known[one.delta] = partitions
            for partition in partitions:
                came.setdefault(partition, Came(one.id, one.at))
        first = one.id
    kept = {one.delta for one in history.snapshots}
    for name in [name for name in known if name not in kept]:
        del known[name]
    created = _newest(reading.digests.values())
    return Changes(first=first, newest=newest.id, since=since, came=came, created=created)


def _looked_at(snapshot: Snapshot, reading: ManifestReading) -> frozenset[bytes] | None:
    """Return the partitions into which a commit brought files. None if its manifests are gone, or there was no time."""
    try:
        manifests = reading.listed(snapshot.delta, snapshot.delta_size)
        known = reading.digests
        new = list(reading.read([one for one in manifests if one.name not in known]))
    except VanishedError:  # it was expired meanwhile
        return None
    digests = [*(digest for _, digest in new), *(known[one.name] for one in manifests if one.name in known)]
    if len(digests) < len(manifests):
        return None
    return frozenset(partition for digest in digests for partition, _, _ in digest.added)


def _newest(digests: Iterable[Digest]) -> Mapping[bytes, int]:
    found: dict[bytes, int] = {}
    for one in digests:
        for partition, created in one.created.items():
            if created > found.get(partition, 0):
                found[partition] = created
    return found
