"""Which old schemas and partition specs are out of use, for snapshots and for writers. Pure.

Iceberg's `cleanExpiredMetadata` removes the schemas and specs that no remaining snapshot has. A writer that loaded the
table before may commit a file of such a spec a moment later. Nothing checks that. From then on the table cannot be
read, because a manifest names a spec that is not there. So a spec or a schema is removed only if it was out of use for
longer than writers hold one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.files import RESTORED, VanishedError, contents_left
from lakewarden.planners.formats.iceberg.metadata.manifests import read_manifest_list
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    CorruptMetadataError,
    Snapshot,
    TableMetadata,
    UnusableFileError,
    later,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.ports import Storage

_JOB = "flink.job-id"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unused:
    """Ids that may be removed."""

    schemas: frozenset[int] = field(default_factory=frozenset)
    specs: frozenset[int] = field(default_factory=frozenset)

    @property
    def is_nothing(self) -> bool:
        """Whether there are none."""
        return not self.schemas and not self.specs


def why_all_stay(metadata: TableMetadata) -> str | None:
    """Return why no schema and no spec of the table may be removed; None if some may."""
    jobs = [snapshot.summary[_JOB] for snapshot in metadata.snapshots if _JOB in snapshot.summary]
    if not jobs:
        return None
    return f"old schemas and partition specs stay: Flink job {jobs[-1]} writes by those with which it was started"


def unused(
    metadata: TableMetadata,
    table_options: IcebergTableOptions,
    now: datetime,
    *,
    specs_of: Callable[[Snapshot], frozenset[int]],
) -> Unused:
    """Return what may be removed: schemas and specs that no snapshot of the table has, and that were replaced before
    `longest_outage` began. Snapshots that are about to expire count, too.

    Ids rise. If a snapshot from before the outage has a later schema or spec, the earlier ones were not in force when a
    writer loaded the table since. `specs_of` returns the specs of a snapshot's manifests.
    """
    head = metadata.current_snapshot
    if head is None or why_all_stay(metadata) is not None:
        return Unused()
    before = next(
        (
            ancestor
            for ancestor in metadata.ancestors(head.id)
            if later(ancestor.at, table_options.longest_outage) < now
        ),
        None,
    )
    if before is None:
        return Unused()
    return Unused(schemas=_schemas(metadata, before), specs=_specs(metadata, before, specs_of))


def _schemas(metadata: TableMetadata, before: Snapshot) -> frozenset[int]:
    used = {snapshot.schema for snapshot in metadata.snapshots}
    if before.schema is None or None in used:  # version 1 need not say it
        return frozenset()
    replaced = {schema for schema in metadata.schemas if schema < before.schema}
    return frozenset(replaced - used - {metadata.current_schema})


def _specs(metadata: TableMetadata, before: Snapshot, specs_of: Callable[[Snapshot], frozenset[int]]) -> frozenset[int]:
    if len(metadata.specs) == 1:
        return frozenset()
    replaced = {spec for spec in metadata.specs if spec < max(specs_of(before), default=-1)}
    used = frozenset[int]().union(*map(specs_of, metadata.snapshots)) if replaced else frozenset()
    return frozenset(replaced - used - {metadata.default_spec})


# What snapshots have lost: their manifest lists, or manifests. Which files they need is then not known.

_MOST = 10
"""A remedy has so many snapshots and names. When they are gone, the next look has the others."""

_DAMAGED = f"if an engine reads the snapshot, Lakewarden is at fault, and the table needs no repair. Else {RESTORED}"


@dataclass(frozen=True, kw_only=True, slots=True)
class LostManifest:
    """A manifest list, or a manifest, that `snapshots` need. It is gone, or damaged."""

    path: str
    is_list: bool
    is_damaged: bool
    snapshots: tuple[int, ...]

    def holder(self, metadata: TableMetadata) -> str:
        """Return the snapshot that has lost the file, with its names. If there are several, it is one with a name."""
        first = min(self.snapshots, key=lambda snapshot: not _names(metadata, [snapshot]))
        names = ", ".join(_names(metadata, [first]))
        return f"snapshot {first} ({names})" if names else f"snapshot {first}"

    @property
    def what(self) -> str:
        """Return what follows "has lost its manifest"."""
        others = len(self.snapshots) - 1
        also = f", and so {'has 1 other' if others == 1 else f'have {others} others'}" if others else ""
        return f"{' list' * self.is_list} {self.path}{', which is damaged' * self.is_damaged}{also}"

    def remedy(self, metadata: TableMetadata) -> str:
        """Return what to do. No snapshot is to expire if the table itself needs the file. If some have names, only they
        are to expire by hand: the rules of clean let the others expire when no reader needs them.

        Iceberg's own procedure expires the snapshot, and then fails because the file is gone (run with 1.11.0). By
        default it expires others, too.
        """
        restore = _DAMAGED if self.is_damaged else RESTORED
        if metadata.current in self.snapshots:
            return f"{restore}. The current snapshot needs it"
        named = [snapshot for snapshot in self.snapshots if _names(metadata, [snapshot])]
        ids = (named or self.snapshots)[:_MOST]
        names, listed = _names(metadata, ids), ", ".join(map(str, ids))
        first = f"remove {' and '.join(names)}, and then " if names else ""
        by_hand = f"by_id({listed})" if len(ids) == 1 else f"by_ids([{listed}])"
        return (
            f"{restore}. If that cannot be done, no engine can read the snapshot: {first}expire it by hand, with "
            f"pyiceberg (table.maintenance.expire_snapshots().{by_hand}.commit()), which deletes no file, or with "
            f"CALL system.expire_snapshots(older_than => TIMESTAMP '2000-01-01', snapshot_ids => ARRAY({listed})), "
            "which may fail for the same file after it has expired the snapshot. A clean that expires it by its rules "
            "needs no help"
        )


def _names(metadata: TableMetadata, snapshots: Sequence[int]) -> Sequence[str]:
    return [
        f"the {'branch' if ref.is_branch else 'tag'} {ref.name!r}" for ref in metadata.refs if ref.snapshot in snapshots
    ]


def refuse_lost(lost: Mapping[str, bool], kept: Sequence[Snapshot], metadata: TableMetadata, storage: Storage) -> None:
    """Raise an error that names the snapshots, of those that are `kept`, with the first of the `lost` manifests and
    lists. It is a CorruptMetadataError if that is damaged, and else a VanishedError. Their lists are read again.
    """
    for path, is_damaged in lost.items():
        lists = {snapshot.manifest_list: snapshot.id for snapshot in kept if snapshot.manifest_list is not None}
        needing = (lists[path],) if path in lists else tuple(needed_by(lists, storage, {}).get(path, ()))
        if not needing:
            raise VanishedError(f"no list that is there names {path} any more, so no file is deleted")
        file = LostManifest(path=path, is_list=path in lists, is_damaged=is_damaged, snapshots=needing)
        raise (CorruptMetadataError if is_damaged else VanishedError)(
            f"{file.holder(metadata)} has lost its manifest{file.what}: which files it needs is not known, so no file "
            f"is deleted; {file.remedy(metadata)}"
        )


def needed_by(lists: Mapping[str, int], storage: Storage, lost: dict[str, bool]) -> Mapping[str, Sequence[int]]:
    """Return the manifests that manifest lists name, each with the snapshots that have these `lists`. Lists that are
    gone or damaged are noted in `lost`. Raises PermanentError and TemporaryError.
    """
    needing: dict[str, list[int]] = {}
    for path, content in contents_left(lists, storage, lost):
        with noted(path, lost):
            for manifest in read_manifest_list(content, path=path):
                needing.setdefault(manifest.path, []).append(lists[path])
    return needing


@contextlib.contextmanager
def noted(path: str, lost: dict[str, bool]) -> Iterator[None]:
    """Note a damaged file in `lost`."""
    try:
        yield
    except UnusableFileError:
        raise
    except CorruptMetadataError:
        lost[path] = True
