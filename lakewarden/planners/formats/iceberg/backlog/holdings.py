"""The files of a snapshot, as far as policies need them: some files one by one, and tallies of the others.

A data file is kept by itself if deletes may apply to it, or if all files are rewritten. For the other files a rewrite
needs to know how many are too small or too large, and which writers touched their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, ManifestDigest, Origin, WriteMark
from lakewarden.planners.formats.iceberg.metadata.manifests import FileContent
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.tallies import PartitionTally, Tallies, Tallying, TallyKey
from lakewarden.planners.formats.iceberg.rewriting.groups import grouped_as, is_unpartitioned
from lakewarden.planners.formats.iceberg.rewriting.selection import EVERYTHING, Selection
from lakewarden.planners.formats.iceberg.rewriting.thresholds import Thresholds
from lakewarden.planners.formats.iceberg.writers.touches import is_update


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """The delete files, the data files that are kept by themselves, and the tallies of the other data files. `rowless`
    data files have no row according to their manifests, or an unknown number.
    """

    files: Sequence[LiveFile] = ()
    tallies: Mapping[TallyKey, PartitionTally] = field(default_factory=dict)
    rowless: int = 0

    @property
    def data_files(self) -> int:
        """Return how many data files there are."""
        alone = sum(1 for one in self.files if one.content is FileContent.DATA)
        return alone + sum(tally.files for tally in self.tallies.values())

    @property
    def delete_files(self) -> int:
        """Return how many delete files there are."""
        return sum(1 for one in self.files if one.content is not FileContent.DATA)

    def written(self) -> Iterator[WriteMark]:
        """Yield which commits wrote to each partition. Of the tallied files, only the commits that an `Outline`
        keeps.
        """
        yield from self.files
        for (_, partition), tally in self.tallies.items():
            for sequence, snapshot in tally.origins:
                yield _Written(partition, sequence, snapshot)


class _Written(NamedTuple):
    partition: str
    sequence: int
    snapshot: int


class HeldDigests(NamedTuple):
    """The digests of a snapshot's manifests. Those of data files are keyed by path. Those of delete files are a
    list.
    """

    data: Mapping[str, ManifestDigest]
    deletes: Sequence[ManifestDigest]

    def everything(self) -> Holdings:
        """Return every file by itself."""
        files = tuple(file for one in (*self.data.values(), *self.deletes) for file in one.live())
        return Holdings(files=files, rowless=self._rowless())

    def holdings(
        self, metadata: TableMetadata, rules: Thresholds, known: Tallies, may: Selection = EVERYTHING
    ) -> tuple[Holdings, Tallies]:
        """Return what a rewrite by these rules needs, and the tallies for the next observation. Tallies that are
        `known` are used again if nothing has changed. If a partition has files that are too young for `may`, all its
        files are kept by themselves.
        """
        deletes = tuple(file for one in self.deletes for file in one.live())
        if _apply_everywhere(deletes, metadata):
            return self.everything(), Tallies()
        outline = Outline(metadata)
        tallies = known.again(self.data, Tallying(smallest=rules.smallest, largest=rules.largest, outline=outline))
        total = tallies.total()
        names = {grouped_as(one.spec, one.partition, metadata) for one in deletes}
        alone = {place for place in total if names and grouped_as(*place, metadata) in names}
        alone |= {place for place, tally in total.items() if may.has_young(tally.origins)}
        if not alone:
            return Holdings(files=deletes, tallies=total, rowless=self._rowless()), tallies
        files = (*deletes, *self._of(alone))
        others = {at: one for at, one in total.items() if at not in alone}
        return Holdings(files=files, tallies=others, rowless=self._rowless()), tallies

    def _rowless(self) -> int:
        return sum(one.rowless for one in self.data.values())

    def _of(self, places: Iterable[TallyKey]) -> Iterator[LiveFile]:
        partitions: dict[int, set[str]] = {}
        for spec, partition in places:
            partitions.setdefault(spec, set()).add(partition)
        for one in self.data.values():
            if one.spec in partitions:
                yield from one.live(partitions[one.spec])


def _apply_everywhere(deletes: Iterable[LiveFile], metadata: TableMetadata) -> bool:
    """Whether there is an equality delete of a spec without partitions. It applies to files of every spec."""
    return any(
        one.content is FileContent.EQUALITY_DELETES and is_unpartitioned(metadata.specs.get(one.spec, ()))
        for one in deletes
    )


class Outline:
    """Chooses a few of the commits that added files to a partition. They suffice to tell which writers touched it: the
    newest and the oldest commit, the newest two that changed rows, and the newest that is no known write, if there is
    one.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._snapshots = metadata.by_id

    def __call__(self, origins: Iterable[Origin]) -> tuple[Origin, ...]:
        """Return the chosen commits. They tell the same as all of them."""
        kept: set[Origin] = set()
        known: list[tuple[datetime, Origin]] = []
        updates: list[tuple[datetime, Origin]] = []
        others: list[Origin] = []
        newest = (-1, 0)
        for origin in origins:
            newest = max(newest, origin)
            snapshot = self._snapshots.get(origin[1])
            if snapshot is None or snapshot.operation == "replace":
                others.append(origin)
                continue
            known.append((snapshot.at, origin))
            if snapshot.operation != "append" and is_update(snapshot):
                updates.append((snapshot.at, origin))
        kept.add(newest)
        if known:
            kept |= {max(known)[1], min(known)[1]}
        if others:
            kept.add(max(others))
        if updates:
            kept.update(origin for _, origin in sorted(updates)[-2:])
        return tuple(sorted(kept))
