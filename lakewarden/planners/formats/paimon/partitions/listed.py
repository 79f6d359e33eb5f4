"""The partitions of a table, each with what it holds. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakewarden.planners.formats.paimon.backlog.totals import Totals
from lakewarden.planners.formats.paimon.metadata.manifests import Key, Tally
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.partitions.names import PartitionName, name_of


@dataclass(frozen=True, kw_only=True, slots=True)
class PaimonPartition:
    """One partition: its binary row, its names, and the sums of its files. `name` is None if it cannot be told."""

    row: bytes
    name: PartitionName | None
    held: Mapping[Key, Tally]

    @property
    def files(self) -> int:
        """Return how many data files it has."""
        return sum(one.files for one in self.held.values())

    @property
    def bytes(self) -> int:
        """Return how many bytes they have."""
        return sum(one.bytes for one in self.held.values())

    @property
    def rows(self) -> int:
        """Return how many rows they have."""
        return sum(one.rows for one in self.held.values())

    @property
    def level_0(self) -> int:
        """Return how many files of level 0 it has."""
        return sum(one.files for (_, _, level), one in self.held.items() if level == 0)


def partitions_of(totals: Totals, schema: Schema) -> Iterator[PaimonPartition]:
    """Yield the partitions of a table that is partitioned."""
    if not schema.partition_keys:
        return
    by_row: dict[bytes, dict[Key, Tally]] = {}
    for key, tally in totals.items():
        by_row.setdefault(key[0], {})[key] = tally
    for row, held in by_row.items():
        yield PaimonPartition(row=row, name=name_of(row, schema), held=held)
