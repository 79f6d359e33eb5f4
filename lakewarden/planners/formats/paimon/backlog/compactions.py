"""The last full compaction of a table, and the commits since.

A compaction of a table with a primary key is full where all that it wrote is at the highest level: then each bucket
that it touched is one sorted run. Every compaction of an append table counts as one.

Source: `org.apache.paimon.mergetree.compact.CompactStrategy.pickFullCompaction` of Paimon 1.3.1. Its output level is
`num-levels` - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.manifests_read import ManifestReading
from lakewarden.planners.formats.paimon.metadata.files import VanishedError
from lakewarden.planners.formats.paimon.metadata.history import History
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.errors import PermanentError

_MOST = 64
"""So many compactions are looked at, the newest, until one of them was full."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SinceCompaction:
    """The newest full compaction, and how many write commits came after it: `commits`. Where none is found these are
    all that were looked at, and `since` is the oldest of them. `any_commits` are those after any compaction, which was
    at `any_since`.
    """

    last: Snapshot | None
    commits: int
    any_commits: int
    since: datetime | None
    any_since: datetime | None
    compactions: int


@dataclass(kw_only=True, slots=True)
class Compactions:
    """Tells full compactions from others. `known` are those that were looked at before, by their manifest lists; what
    cannot be told is a fault.
    """

    reading: ManifestReading
    schema: Schema
    known: dict[str, bool]
    faults: list[str]

    def since(self, history: History) -> SinceCompaction:
        """Return what came after the last full compaction."""
        found = [one for one in reversed(history.snapshots) if one.is_compaction]
        last = next((one for one in found[:_MOST] if self._is_full(one)), None)
        kept = {one.delta for one in found}
        for name in [name for name in self.known if name not in kept]:
            del self.known[name]
        newest = found[0].id if found else 0
        after = _writes(history.snapshots, 0 if last is None else last.id)
        begun = history.snapshots[0].at if history.snapshots else None
        return SinceCompaction(
            last=last,
            commits=len(after),
            any_commits=len(_writes(history.snapshots, newest)),
            since=begun if last is None else last.at,
            any_since=found[0].at if found else begun,
            compactions=len(found),
        )

    def _is_full(self, compaction: Snapshot) -> bool:
        if not self.schema.has_key:
            return True
        full = self.known.get(compaction.delta)
        if full is None:
            full = self._looked_at(compaction)
        return full

    def _looked_at(self, compaction: Snapshot) -> bool:
        highest = self.schema.options.levels - 1
        try:
            manifests = self.reading.listed(compaction.delta, compaction.delta_size)
            known = self.reading.digests
            new = self.reading.read([one for one in manifests if one.name not in known])
            digests = [*(digest for _, digest in new), *(known[one.name] for one in manifests if one.name in known)]
        except VanishedError:  # it was expired meanwhile
            return False
        except PermanentError as wrong:
            self.faults.append(str(wrong))
            return False
        added = [level for digest in digests for _, _, level in digest.added]
        if len(digests) < len(manifests):  # there was no time for all of them
            return False
        full = self.known[compaction.delta] = bool(added) and min(added) >= highest
        return full


def _writes(snapshots: Sequence[Snapshot], after: int) -> Sequence[Snapshot]:
    return [one for one in snapshots if one.id > after and one.is_write]
