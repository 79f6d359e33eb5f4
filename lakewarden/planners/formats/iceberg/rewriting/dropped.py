"""The deletes that the commit of a rewrite would drop. They are checked before the commit.

Iceberg's commit drops each delete file with a sequence number below that of every data file which it finds
(`MergingSnapshotProducer.apply`, 1.11.0). It does not count the files that it adds. They keep the sequence number of
their plan, so newer equality deletes apply to them as well. If a rewrite takes all files that it has found, and the
first commit after its plan deletes rows and adds nothing, these deletes are dropped. Then the deleted rows are
back (apache/iceberg#10312).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.metadata.files import files_of
from lakewarden.planners.formats.iceberg.metadata.manifests import EntryStatus, Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.rewriting.groups import is_unpartitioned
from lakewarden.planners.ports import Storage


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The snapshot that a rewrite was planned from, and its sequence number. `left` are the old specs of files that the
    rewrite writes by another spec.
    """

    snapshot: int
    sequence: int
    left: frozenset[int]


def refusal(
    planned: Planned, *, snapshot: int, manifests: Sequence[Manifest], metadata: TableMetadata, storage: Storage
) -> str | None:
    """Return why the `snapshot` that a rewrite has made, with these `manifests`, must not be committed. None if it may.

    The snapshot must not remove a delete file that is newer than the plan. Since the plan, no row may have been deleted
    by a spec in `left`. Raises CorruptMetadataError, VanishedError and TemporaryError.
    """
    of_deletes = [one for one in manifests if one.of_deletes]
    for one in of_deletes:
        has_partitions = not is_unpartitioned(metadata.specs.get(one.spec, ()))
        if one.spec in planned.left and has_partitions and one.sequence > planned.sequence:
            return f"since the plan, rows were deleted by partition spec {one.spec}, and the rewrite takes files of it"
    changed = [one for one in of_deletes if one.added_by == snapshot]
    for file in files_of(changed, metadata, storage):
        if file.status is EntryStatus.DELETED and not (file.sequence is not None and file.sequence <= planned.sequence):
            return "every file would be rewritten, and deletes be lost that were committed since the plan"
    return None
