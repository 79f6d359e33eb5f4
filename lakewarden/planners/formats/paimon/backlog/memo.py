"""What one observation hands to the next: what was read of files that never change, as long as the table has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakewarden.planners.formats.paimon.backlog.totals import Totals
from lakewarden.planners.formats.paimon.metadata.index_manifests import NO_INDEX, IndexFiles
from lakewarden.planners.formats.paimon.metadata.kept import Remembered
from lakewarden.planners.formats.paimon.metadata.manifests import Digest
from lakewarden.planners.formats.paimon.writers.markers import Done


@dataclass(frozen=True, kw_only=True, slots=True)
class Memo:
    """Small files by their locations; the digests of the newest snapshot's manifests by their names, and their sums
    unless some are left to be read, made with `small` bytes as the bound of small files; its index manifest, with what
    that names; and of compactions, by their manifest lists, whether they were full in a table with so many `levels`, or
    None if they changed no file. `came` are the partitions into which commits brought files, by their manifest lists.
    `marked` are the markers that were read, and `watched` those that the token has.
    """

    kept: Remembered = field(default_factory=dict)
    small: int = -1
    digests: Mapping[str, Digest] = field(default_factory=dict)
    totals: Totals | None = None
    index: tuple[str | None, IndexFiles] = (None, NO_INDEX)
    levels: int = 0
    full: Mapping[str, bool | None] = field(default_factory=dict)
    came: Mapping[str, frozenset[bytes]] = field(default_factory=dict)
    marked: Mapping[bytes, Done] = field(default_factory=dict)
    watched: tuple[str, ...] = ()
