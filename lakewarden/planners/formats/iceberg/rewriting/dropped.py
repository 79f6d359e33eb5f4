"""What a rewrite would take from the table beside the files that it is about: judged before it is committed.

Iceberg's commit drops each delete file with a sequence number below that of every data file which it finds
(`MergingSnapshotProducer.apply`, 1.11.0). It does not count those that it adds: they keep the sequence number of their
plan, so that what was deleted by equality since is for them as well. Where a rewrite takes all files that it has found,
and the first commit after its plan deletes and adds nothing, these deletes go, and the rows are back
(apache/iceberg#10312).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.metadata.files import files_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest, Status
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.rewriting.groups import is_unpartitioned
from lakewarden.planners.ports import Storage


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The snapshot that a rewrite was planned from, with its sequence number, and the specs of which it takes files to
    write them by another one (`left`).
    """

    snapshot: int
    sequence: int
    left: frozenset[int]


def refusal(
    planned: Planned, *, snapshot: int, manifests: Sequence[Manifest], metadata: TableMetadata, storage: Storage
) -> str | None:
    """Return why the `snapshot` that a rewrite has made, with these `manifests`, must not become the table's; None
    where it may.

    It must have removed no delete file that is newer than its plan, and nothing may have been deleted since by a spec
    of which it takes files. Raises CorruptMetadataError, VanishedError and TemporaryError.
    """
    of_deletes = [one for one in manifests if one.of_deletes]
    for one in of_deletes:
        has_partitions = not is_unpartitioned(metadata.specs.get(one.spec, ()))
        if one.spec in planned.left and has_partitions and one.sequence > planned.sequence:
            return f"rows were deleted by partition spec {one.spec}, of which files were taken, since the plan"
    changed = [one for one in of_deletes if one.added_by == snapshot]
    for file in files_of(changed, metadata, storage):
        if file.status is Status.DELETED and not (file.sequence is not None and file.sequence <= planned.sequence):
            return "every file would be rewritten, and deletes be lost that were committed since the plan"
    return None
