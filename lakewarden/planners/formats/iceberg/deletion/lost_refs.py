"""Names that were lost with the snapshots of an expiry, because they were made between its last look and its commit.

Only a catalog that applies changes to the table as it is by then can lose them. The log of earlier metadata files shows
the version to which the expiry was applied.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.deletion.refs import NamedRef
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import Ref, TableMetadata
from lakewarden.planners.ports import Storage


@dataclass(frozen=True, kw_only=True, slots=True)
class LostRefs:
    """The names that stood for snapshots of the expiry, in the version `before` it. That is the path of a metadata
    file. It is None if the log does not reach so far back. Then it is not known whether a name was lost.
    """

    before: str | None
    refs: tuple[Ref, ...] = ()


def lost_refs(
    expired: Collection[int], chosen: Collection[NamedRef], metadata: TableMetadata, storage: Storage
) -> LostRefs:
    """Return the names that were lost with the `expired` snapshots. `metadata` is a version after the expiry, and
    `chosen` are the names that were to go. A name that exists by now is not lost.

    Raises CorruptMetadataError, PermanentError and TemporaryError if an earlier version cannot be read.
    """
    there = {ref.name for ref in metadata.refs}
    for file in reversed(metadata.metadata_log):
        try:
            earlier = read_table(file, storage, told=metadata.told)
        except VanishedError:
            break
        if any(one in earlier.by_id for one in expired):
            lost = (ref for ref in earlier.refs if ref.snapshot in expired and ref.name not in there)
            return LostRefs(before=file, refs=tuple(ref for ref in lost if (ref.name, ref.snapshot) not in chosen))
    return LostRefs(before=None)
