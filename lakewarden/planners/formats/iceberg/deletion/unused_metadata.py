"""Which old schemas and partition specs are out of use, for snapshots and for writers. Pure.

Iceberg's `cleanExpiredMetadata` removes the schemas and specs that no remaining snapshot has. A writer that loaded the
table before may commit a file of such a spec a moment later. Nothing checks that. From then on the table cannot be
read, because a manifest names a spec that is not there. So a spec or a schema is removed only if it was out of use for
longer than writers hold one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.moments import later
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions

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
    jobs = [one.summary[_JOB] for one in metadata.snapshots if _JOB in one.summary]
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
        (one for one in metadata.ancestors(head.id) if later(one.at, table_options.longest_outage) < now), None
    )
    if before is None:
        return Unused()
    return Unused(schemas=_schemas(metadata, before), specs=_specs(metadata, before, specs_of))


def _schemas(metadata: TableMetadata, before: Snapshot) -> frozenset[int]:
    used = {one.schema for one in metadata.snapshots}
    if before.schema is None or None in used:  # version 1 need not say it
        return frozenset()
    replaced = {one for one in metadata.schemas if one < before.schema}
    return frozenset(replaced - used - {metadata.current_schema})


def _specs(metadata: TableMetadata, before: Snapshot, specs_of: Callable[[Snapshot], frozenset[int]]) -> frozenset[int]:
    if len(metadata.specs) == 1:
        return frozenset()
    replaced = {one for one in metadata.specs if one < max(specs_of(before), default=-1)}
    used = frozenset[int]().union(*map(specs_of, metadata.snapshots)) if replaced else frozenset()
    return frozenset(replaced - used - {metadata.default_spec})
