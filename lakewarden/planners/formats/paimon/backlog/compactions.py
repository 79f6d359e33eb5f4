"""The last full compaction of a table, and the commits since.

A compaction of a table with a primary key is full where all that it wrote is at the highest level: then each bucket
that it touched is one sorted run. Every compaction of an append table counts as one. A snapshot of this kind that names
no file is a merge of manifests (`sys.compact_manifest`), and no compaction.

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
from lakewarden.planners.formats.paimon.metadata.signature import run_of
from lakewarden.planners.formats.paimon.metadata.snapshots import Snapshot
from lakewarden.planners.model.errors import PermanentError

_MOST = 64
"""So many compactions are looked at, the newest, until one of them was full."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SinceCompaction:
    """The newest full compaction, and how many write commits came after it: `commits`. Where none is found these are
    all that were looked at, and `since` is the oldest of them. `any_commits` are those after any compaction, which was
    at `any_since`. `idle` are the snapshots of the kind of a compaction that changed no file.
    """

    last: Snapshot | None
    commits: int
    any_commits: int
    since: datetime | None
    any_since: datetime | None
    idle: frozenset[int]


@dataclass(kw_only=True, slots=True)
class Compactions:
    """Tells full compactions from others. `known` are those that were looked at before, by their manifest lists. None
    is one that changed no file. What cannot be told is a fault.
    """

    reading: ManifestReading
    schema: Schema
    known: dict[str, bool | None]
    faults: list[str]

    def since(self, history: History) -> SinceCompaction:
        """Return what came after the last full compaction."""
        made = [one for one in reversed(history.snapshots) if one.is_compaction]
        last, idle = self._looked_through(made)
        found = [one for one in made if one.id not in idle]
        kept = {one.delta for one in made}
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
            idle=frozenset(idle),
        )

    def _looked_through(self, made: Sequence[Snapshot]) -> tuple[Snapshot | None, set[int]]:
        """Return the newest full compaction, and which of the others have changed no file. Those of Lakewarden have."""
        last: Snapshot | None = None
        idle = set[int]()
        for one in made[:_MOST]:
            if run_of(one.user) is not None and (last is not None or not self.schema.has_key):
                last = last or one
                continue
            full, fault = self._is_full(one)
            if full is None:
                idle.add(one.id)
            elif last is None:
                last = one if full else None
                self.faults.extend(fault)
        return last, idle

    def _is_full(self, compaction: Snapshot) -> tuple[bool | None, Sequence[str]]:
        """Return whether a compaction was full, None if it changed no file, and why that cannot be told."""
        if compaction.delta in self.known:
            return self.known[compaction.delta], ()
        keyed = self.schema.has_key
        try:
            manifests = self.reading.listed(compaction.delta, compaction.delta_size)
            known = self.reading.digests
            wanted = manifests if keyed else ()
            new = self.reading.read([one for one in wanted if one.name not in known])
            digests = [*(digest for _, digest in new), *(known[one.name] for one in wanted if one.name in known)]
        except VanishedError:  # it was expired meanwhile
            return not keyed, ()
        except PermanentError as wrong:
            return not keyed, [str(wrong)] if keyed else []
        if len(digests) < len(wanted):  # there was no time for all of them
            return False, ()
        added = [level for digest in digests for _, _, level in digest.added]
        whole = not keyed or (bool(added) and min(added) >= self.schema.options.levels - 1)
        full = self.known[compaction.delta] = whole if manifests else None
        return full, ()


def _writes(snapshots: Sequence[Snapshot], after: int) -> Sequence[Snapshot]:
    return [one for one in snapshots if one.id > after and one.is_write]
