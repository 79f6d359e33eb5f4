"""Deletes by equality, and what a rewrite must not do beside them (docs/iceberg.md). Pure.

They are for every row with these values that is older than they are: in the partition in which they lie, under the
spec by which they were written, or everywhere if that spec has no partitions (`DeleteFileIndex` of 1.11.0).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.manifests import Content
from lakewarden.planners.formats.iceberg.metadata.metadata import PartitionField, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, is_unpartitioned

_ADDED = "added-equality-delete-files"
_JOB = "flink.job-id"

Specs = Mapping[int, tuple[PartitionField, ...]]


def kept_specs(
    files: Iterable[LiveFile], metadata: TableMetadata, options: IcebergTableOptions, now: datetime
) -> frozenset[int]:
    """Return the old partition specs in which rewritten files stay: those by which a job may still delete.

    A job goes on with the spec with which it was started. What it deletes by equality reaches no file of another
    spec, so that rows which a rewrite had moved would be there twice. A job counts for `flink_restores` from its last
    commit. Which spec it has is told by its live deletes; where none is left, it may be any.
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
    jobs: dict[str, set[int]] = {}
    for one in history:
        if one.count(_ADDED) and one.at >= since:
            jobs.setdefault(_job(one), set()).update(written.get(one.id, ()))
    forgotten = written.keys() - {one.id for one in history} if not history or history[-1].at >= since else ()
    if not all(jobs.values()):
        return old
    return old & frozenset[int]().union(*jobs.values(), *(written[snapshot] for snapshot in forgotten))


def _specs_by_snapshot(files: Iterable[LiveFile]) -> Mapping[int, set[int]]:
    """Return the specs of the live equality deletes that each snapshot added."""
    found: dict[int, set[int]] = {}
    for file in files:
        if file.content is Content.EQUALITY_DELETES:
            found.setdefault(file.snapshot, set()).add(file.spec)
    return found


def _job(snapshot: Snapshot) -> str:
    """Return who committed; each commit that names no job is one of its own."""
    return snapshot.summary.get(_JOB) or f"snapshot {snapshot.id}"


def are_expected(files: Iterable[LiveFile], metadata: TableMetadata) -> bool:
    """Whether somebody deletes by equality, as far as is known."""
    return any(file.content is Content.EQUALITY_DELETES for file in files) or any(
        one.count(_ADDED) for one in metadata.snapshots
    )


def anchored(takes: Sequence[Group], files: Iterable[LiveFile], *, data_files: int) -> tuple[Group, ...]:
    """Return the groups without one of their `files`, where else they would be all `data_files` of the table.

    Iceberg's commit drops the deletes that are older than every file which it finds (`MergingSnapshotProducer.apply`),
    and does not look at those that it adds itself, which keep the sequence number of their plan: a delete by equality
    of after the plan goes, although it is for them. One file of before the plan keeps it. That is the newest, for
    which the fewest deletes have to stay. Nothing is left out where too little would remain to be rewritten: then the
    look at the commit has to do (`dropped.py`).
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
"""Of so many files, to leave one out would leave nothing to join."""


def _youth(file: LiveFile) -> tuple[int, int, int]:
    """Return what orders files: the newest last, and of equals the smallest."""
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
    """Return the delete files that no data file needs: what they are for is gone, or younger than they are."""
    found = tuple(files)
    ages = _Ages(found, specs)
    return tuple(one for one in found if one.content is not Content.DATA and not ages.has_a_file_for(one))


class _Ages:
    """How old the data files are that a delete may be for, as sequence numbers."""

    def __init__(self, files: Iterable[LiveFile], specs: Specs) -> None:
        self._specs = specs
        self._by_key: dict[int, int] = {}
        self._oldest_in: dict[tuple[int, str], int] = {}
        for file in files:
            if file.content is Content.DATA:
                where = file.spec, file.partition
                self._by_key[file.key] = file.sequence
                self._oldest_in[where] = min(file.sequence, self._oldest_in.get(where, file.sequence))
        self._oldest = min(self._by_key.values(), default=None)

    def has_a_file_for(self, delete: LiveFile) -> bool:
        """Whether there is a data file that a delete file may be for."""
        if delete.content is Content.EQUALITY_DELETES:
            everywhere = is_unpartitioned(self._specs.get(delete.spec, ()))
            oldest = self._oldest if everywhere else self._oldest_in.get((delete.spec, delete.partition))
            return oldest is not None and oldest < delete.sequence
        if delete.references is not None:
            oldest = self._by_key.get(delete.references)
        else:
            oldest = self._oldest_in.get((delete.spec, delete.partition))
        return oldest is not None and oldest <= delete.sequence
