"""What a snapshot holds, as far as policies ask: single files where they matter, and tallies of the others.

A data file matters by itself where deletes may apply to it, and where all files are written anew. Of the rest a rewrite
asks how many are too small or too large, and its distance from writers by whom a partition was touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from lakewarden.planners.formats.iceberg.metadata.digests import Digest, LiveFile, Origin, Written
from lakewarden.planners.formats.iceberg.metadata.manifests import Content
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.tallies import Place, Tallies, Tally, Tallying
from lakewarden.planners.formats.iceberg.rewriting.groups import Thresholds, grouped_as, is_unpartitioned
from lakewarden.planners.formats.iceberg.writers.touches import is_update


@dataclass(frozen=True, kw_only=True, slots=True)
class Holdings:
    """The delete files and those data files that matter by themselves, and the tallies of the others."""

    files: Sequence[LiveFile] = ()
    tallies: Mapping[Place, Tally] = field(default_factory=dict)

    @property
    def data_files(self) -> int:
        """Return how many data files there are."""
        alone = sum(1 for one in self.files if one.content is Content.DATA)
        return alone + sum(tally.files for tally in self.tallies.values())

    @property
    def delete_files(self) -> int:
        """Return how many delete files there are."""
        return sum(1 for one in self.files if one.content is not Content.DATA)

    def written(self) -> Iterator[Written]:
        """Yield by whom each partition was written to: of the tallied files, those that tell it of all."""
        yield from self.files
        for (_, partition), tally in self.tallies.items():
            for sequence, snapshot in tally.origins:
                yield _Written(partition, sequence, snapshot)


class _Written(NamedTuple):
    partition: str
    sequence: int
    snapshot: int


class Held(NamedTuple):
    """The digests of a snapshot's manifests: those of data files by their paths, and those of delete files."""

    data: Mapping[str, Digest]
    deletes: Sequence[Digest]

    def everything(self) -> Holdings:
        """Return every file by itself."""
        return Holdings(files=tuple(file for one in (*self.data.values(), *self.deletes) for file in one.live()))

    def holdings(self, metadata: TableMetadata, rules: Thresholds, known: Tallies) -> tuple[Holdings, Tallies]:
        """Return what a rewrite by these rules asks for, and the tallies for the next look, which are made of those
        that are `known` as far as nothing has changed.
        """
        deletes = tuple(file for one in self.deletes for file in one.live())
        if _apply_everywhere(deletes, metadata):
            return self.everything(), Tallies()
        outline = Outline(metadata)
        tallies = known.again(self.data, Tallying(smallest=rules.smallest, largest=rules.largest, outline=outline))
        total = tallies.total()
        if not deletes:
            return Holdings(tallies=total), tallies
        names = {grouped_as(one.spec, one.partition, metadata) for one in deletes}
        alone = {place for place in total if grouped_as(*place, metadata) in names}
        files = (*deletes, *self._of(alone))
        return Holdings(files=files, tallies={at: one for at, one in total.items() if at not in alone}), tallies

    def _of(self, places: Iterable[Place]) -> Iterator[LiveFile]:
        partitions: dict[int, set[str]] = {}
        for spec, partition in places:
            partitions.setdefault(spec, set()).add(partition)
        for one in self.data.values():
            if one.spec in partitions:
                yield from one.live(partitions[one.spec])


def _apply_everywhere(deletes: Iterable[LiveFile], metadata: TableMetadata) -> bool:
    """Whether there is an equality delete of a spec without partitions: it is for files of every spec."""
    return any(
        one.content is Content.EQUALITY_DELETES and is_unpartitioned(metadata.specs.get(one.spec, ()))
        for one in deletes
    )


class Outline:
    """Finds, among those that added files to a partition, the ones by which it is told who touched it: the newest and
    the oldest, the newest two that changed rows, and one that is no known write, if there is any.
    """

    def __init__(self, metadata: TableMetadata) -> None:
        self._snapshots = metadata.by_id

    def __call__(self, origins: Iterable[Origin]) -> tuple[Origin, ...]:
        """Return them; they tell the same as all."""
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
