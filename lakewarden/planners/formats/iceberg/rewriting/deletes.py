"""Deletes by equality, and what a rewrite must not do beside them (docs/iceberg.md). Pure.

An equality delete applies to every older row with its values. It applies in its own partition, under the spec by which
it was written. If that spec has no partitions, it applies everywhere (`DeleteFileIndex` of 1.11.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile, ManifestDigest
from lakewarden.planners.formats.iceberg.metadata.files import files_of
from lakewarden.planners.formats.iceberg.metadata.manifests import EntryStatus, FileContent, Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField, Ref, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, is_unpartitioned
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import shown

_ADDED = "added-equality-delete-files"
_JOB = "flink.job-id"
_ENGINE = "engine-name"
_BY_POSITION = "spark"

Specs = Mapping[int, tuple[PartitionField, ...]]


def kept_specs(
    files: Iterable[LiveFile], metadata: TableMetadata, options: IcebergTableOptions, now: datetime
) -> frozenset[int]:
    """Return the old partition specs in which rewritten files stay: those by which a job may still delete.

    A job keeps the spec with which it was started. Its equality deletes reach no file of another spec. If a rewrite had
    moved rows to another spec, these rows would be there twice. A job that has deleted by equality counts for
    `flink_restores` from its last commit, even if it only added rows since. Its live deletes tell its spec. If none is
    left, it may be any spec. If the schema has identifier fields, each job counts that is not known to delete by
    position only: the snapshots with its deletes may have expired, or its first delete may be yet to come.
    """
    old = frozenset(
        spec
        for spec, fields in metadata.specs.items()
        if spec != metadata.default_spec and not is_unpartitioned(fields)
    )
    if not old:
        return old
    since = now - options.flink_restores
    written = _specs_by_snapshot(files)
    history = list(metadata.ancestors(metadata.current))
    lately = {_job(snapshot) for snapshot in history if snapshot.at >= since}
    jobs: dict[str, set[int]] = {}
    for snapshot in history:
        if snapshot.count(_ADDED) and _job(snapshot) in lately:
            jobs.setdefault(_job(snapshot), set()).update(written.get(snapshot.id, ()))
        elif metadata.has_identifier and snapshot.at >= since and _may_delete_by_equality(snapshot):
            jobs.setdefault(_job(snapshot), set())
    forgotten = written.keys() - {snapshot.id for snapshot in history} if not history or history[-1].at >= since else ()
    if not all(jobs.values()):
        return old
    return old & frozenset[int]().union(*jobs.values(), *(written[snapshot] for snapshot in forgotten))


def _specs_by_snapshot(files: Iterable[LiveFile]) -> Mapping[int, set[int]]:
    """Return the specs of the live equality deletes that each snapshot added."""
    specs: dict[int, set[int]] = {}
    for file in files:
        if file.content is FileContent.EQUALITY_DELETES:
            specs.setdefault(file.snapshot, set()).add(file.spec)
    return specs


def _may_delete_by_equality(snapshot: Snapshot) -> bool:
    """Whether the author of a commit may be a job that deletes by equality. Spark deletes by position alone.

    Source: Iceberg 1.11, `EnvironmentContext`: `engine-name` stands in the summary of each commit of Spark.
    """
    return snapshot.operation != "replace" and snapshot.summary.get(_ENGINE) != _BY_POSITION


def _job(snapshot: Snapshot) -> str:
    """Return the job of a commit. A commit that names no job counts as a job of its own."""
    return snapshot.summary.get(_JOB) or f"snapshot {snapshot.id}"


def are_expected(files: Iterable[LiveFile], metadata: TableMetadata) -> bool:
    """Whether the table has equality deletes, or its snapshots say that it had some."""
    return any(file.content is FileContent.EQUALITY_DELETES for file in files) or any(
        snapshot.count(_ADDED) for snapshot in metadata.snapshots
    )


def anchored(takes: Sequence[Group], files: Iterable[LiveFile], *, data_files: int) -> tuple[Group, ...]:
    """Return the groups without one of their `files`, if they would else contain all `data_files` of the table.

    Iceberg's commit drops the deletes that are older than every file which it finds (`MergingSnapshotProducer.apply`).
    It does not count the files that it adds itself, and these keep the sequence number of their plan. So it drops an
    equality delete that is newer than the plan, although the delete applies to the new files. One file that stays
    prevents this. The newest file is chosen, because then the fewest deletes have to stay. If too little would remain
    to be rewritten, no file is left out, and the check at the commit decides.
    """
    data = {file.key: file for file in files}
    if len(data) < data_files:
        return tuple(takes)
    large = [group for group in takes if group.files > _FEWEST]
    if large:
        anchor = max((data[key] for group in large for key in group.keys), key=_youth)
        return tuple(_without(anchor, group, data) for group in takes)
    newest = max((data[key] for group in takes for key in group.keys), key=_youth, default=None)
    rest = tuple(group for group in takes if newest is not None and newest.key not in group.keys)
    return rest or tuple(takes)


_FEWEST = 2
"""If a group has no more files than this, leaving one out would leave nothing to join."""


def _youth(file: LiveFile) -> tuple[int, int, int]:
    """Return the sort key of files: the newest last, and among equals the smallest last."""
    return file.sequence, -file.size, file.key


def _without(anchor: LiveFile, group: Group, data: Mapping[int, LiveFile]) -> Group:
    if anchor.key not in group.keys:
        return group
    left = [data[key] for key in group.keys if key != anchor.key]
    return replace(
        group,
        partitions=frozenset(file.partition for file in left),
        files=len(left),
        bytes=sum(file.size for file in left),
        oldest=min(file.sequence for file in left),
        newest=max(file.sequence for file in left),
        keys=tuple(file.key for file in left),
    )


def needless(files: Iterable[LiveFile], specs: Specs) -> tuple[LiveFile, ...]:
    """Return the delete files that apply to no data file. Their data files are gone, or are younger than the
    deletes.
    """
    all_files = tuple(files)
    ages = _Ages(all_files, specs)
    return tuple(file for file in all_files if file.content is not FileContent.DATA and not ages.has_a_file_for(file))


def blocked_by_dropped_columns(
    digests: Iterable[ManifestDigest], metadata: TableMetadata, *, ref: Ref | None = None
) -> Iterator[Blocker]:
    """Yield what blocks the services that read rows, and clean, if live equality deletes delete by a column that the
    current schema does not have. No engine can read the current snapshot then. Older ones can be read by their own
    schema, so they must not expire.

    With `ref`, `digests` are those of another branch or a tag. Its deletes hold back clean alone, and only if the
    schema of its snapshot does not have the column either: else that snapshot can be read by its id.

    Source: Iceberg 1.11, `data.DeleteFilter` ("Cannot find required field for ID"; run).
    """
    named = {number: path for digest in digests for number, path in digest.deletes_by.items()}
    for number in sorted(named.keys() & metadata.dropped.keys()):
        column = metadata.dropped[number]
        if ref is not None and metadata.by_id[ref.snapshot].schema in column.within:
            continue
        again = _CURRENT if column.is_whole else _IN_A_STRUCT if "." in column.name else _ADDED_AGAIN
        again = again.format(schema=column.schema, number=number, next=max(metadata.schemas) + 1)
        of = "" if ref is None else f" of {'branch' if ref.is_branch else 'tag'} {shown(ref.name)}"
        yield Blocker(
            services=_NEEDS_ROWS if ref is None else frozenset({Service.CLEAN}),
            code="deletes_by_dropped_column",
            reason=f"{named[number]}{of} deletes rows by the column {column.name} (field {number}), which was dropped: "
            f"no engine applies its deletes, and the current rows{of} cannot be read",
            remedy=f"add the column again under its field id ({again}), "
            f"{_REWRITTEN if ref is None else _BRANCH if ref.is_branch else _TAG}, and drop the column again",
        )


_NEEDS_ROWS = frozenset({Service.COMPACTION, Service.CLUSTERING, Service.TABLE_STATS, Service.CLEAN})

_CURRENT = "with pyiceberg: table.catalog.commit_table(table, (), (SetCurrentSchemaUpdate(schema_id={schema}),))"
_ADDED_AGAIN = (
    "with pyiceberg: table.catalog.commit_table(table, (), (AddSchemaUpdate(schema=Schema(*table.schema().fields, "
    'table.schemas()[{schema}].find_field({number}).model_copy(update={{"name": "dropped_{number}"}}), '
    "schema_id={next})), SetCurrentSchemaUpdate(schema_id=-1)))"
)
_IN_A_STRUCT = (
    "by a new current schema that has it in its struct, as schema {schema} has it, beside all columns of today"
)
"""The former schema is made current only if it has all columns of today. A rewrite by it would lose the others."""

_REWRITTEN = (
    "run compaction with --rewrite-all and with remove_dangling_deletes: true in its options until it finds no file "
    "that is left"
)
_BRANCH = (
    "rewrite the rows of the branch with Spark (INSERT OVERWRITE table.branch_name SELECT * FROM "
    "table.branch_name, with spark.sql.sources.partitionOverwriteMode=static)"
)
_TAG = f"create a branch of the tag's snapshot, {_BRANCH}, replace the tag by one of the head of that branch"


class _Ages:
    """The sequence numbers of the data files to which a delete may apply."""

    def __init__(self, files: Iterable[LiveFile], specs: Specs) -> None:
        self._specs = specs
        self._by_key: dict[int, int] = {}
        self._oldest_in: dict[tuple[int, str], int] = {}
        for file in files:
            if file.content is FileContent.DATA:
                where = file.spec, file.partition
                self._by_key[file.key] = file.sequence
                self._oldest_in[where] = min(file.sequence, self._oldest_in.get(where, file.sequence))
        self._oldest = min(self._by_key.values(), default=None)

    def has_a_file_for(self, delete: LiveFile) -> bool:
        """Whether a delete file may apply to a data file."""
        if delete.content is FileContent.EQUALITY_DELETES:
            everywhere = is_unpartitioned(self._specs.get(delete.spec, ()))
            oldest = self._oldest if everywhere else self._oldest_in.get((delete.spec, delete.partition))
            return oldest is not None and oldest < delete.sequence
        if delete.references is not None:
            oldest = self._by_key.get(delete.references)
        else:
            oldest = self._oldest_in.get((delete.spec, delete.partition))
        return oldest is not None and oldest <= delete.sequence


# The deletes that the commit of a rewrite would drop. They are checked before the commit.
#
# Iceberg's commit drops each delete file with a sequence number below that of every data file which it finds
# (`MergingSnapshotProducer.apply`, 1.11.0). It does not count the files that it adds. They keep the sequence number of
# their plan, so newer equality deletes apply to them as well. If a rewrite takes all files that it has found, and the
# first commit after its plan deletes rows and adds nothing, these deletes are dropped. Then the deleted rows are back
# (apache/iceberg#10312).


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
    of_deletes = [manifest for manifest in manifests if manifest.of_deletes]
    for delete in of_deletes:
        has_partitions = not is_unpartitioned(metadata.specs.get(delete.spec, ()))
        if delete.spec in planned.left and has_partitions and delete.sequence > planned.sequence:
            return (
                f"since the plan, rows were deleted by partition spec {delete.spec}, and the rewrite takes files of it"
            )
    changed = [delete for delete in of_deletes if delete.added_by == snapshot]
    for file in files_of(changed, metadata, storage):
        if file.status is EntryStatus.DELETED and not (file.sequence is not None and file.sequence <= planned.sequence):
            return "every file would be rewritten, and deletes be lost that were committed since the plan"
    return None
