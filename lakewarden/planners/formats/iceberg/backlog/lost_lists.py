"""Snapshots that have lost their manifest list. No engine can read them, and it is not known which files they need."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DELETING
from lakewarden.planners.formats.iceberg.metadata.files import without_lists
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

_AGAIN = timedelta(hours=6)
"""A listing of a folder with a manifest list for each of 10,000 snapshots takes 30 requests, so it is not read at each
observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LostLists:
    """The `snapshots` that had lost their manifest list at `seen_at`."""

    snapshots: frozenset[int] = frozenset()
    seen_at: datetime | None = None

    def looked_for(self, table: Table, metadata: TableMetadata, storage: Storage, *, now: datetime) -> LostLists:
        """Look again if it is time to, or if some were lost. Look only if a policy of the table deletes files. If the
        store does not tell, nothing new is known.
        """
        if table.policies.keys().isdisjoint(DELETING):
            return LostLists()
        if not self.snapshots and self.seen_at is not None and now - self.seen_at < _AGAIN:
            return self
        with contextlib.suppress(LakewardenError):
            return LostLists(snapshots=without_lists(metadata.snapshots, storage), seen_at=now)
        return self


def without_a_list(lost: LostLists, table: Table, metadata: TableMetadata, now: datetime) -> Iterator[Blocker]:
    """Yield what blocks clean and orphans. A clean that expires the snapshot helps itself."""
    gone = [one for one in metadata.snapshots if one.id in lost.snapshots]
    if not gone:
        return
    expiring = _expiring(table, metadata, now)
    for one in gone:
        names = [
            f"the {'branch' if ref.is_branch else 'tag'} {ref.name!r}"
            for ref in metadata.refs
            if ref.snapshot == one.id
        ]
        if one.id in expiring:
            yield Blocker(
                services=frozenset({Service.ORPHANS}),
                reason=f"snapshot {one.id} has lost its manifest list {one.manifest_list}, and has not expired yet",
                remedy="nothing if clean runs: it expires the snapshot. Then orphans deletes the files that it alone "
                "needed",
            )
            continue
        named = f" ({', '.join(names)})" if names else ""
        first = f"remove {' and '.join(names)}, and then " if names else ""
        yield Blocker(
            services=frozenset(DELETING),
            reason=f"snapshot {one.id}{named} has lost its manifest list {one.manifest_list}: which files it needs is "
            "not known",
            remedy="restore it from a backup, or from what its store keeps of deleted files. If that cannot be done, "
            f"no engine can read the snapshot: {first}expire it by hand, with pyiceberg "
            f"(table.maintenance.expire_snapshots().by_id({one.id}).commit()), which deletes no file",
        )


def _expiring(table: Table, metadata: TableMetadata, now: datetime) -> frozenset[int]:
    policy = table.policies.get(Service.CLEAN)
    if policy is None or not isinstance(policy.options, CleanOptions):
        return frozenset()
    options = table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()
    with contextlib.suppress(LakewardenError):  # then clean is blocked by that
        return frozenset(expirable(metadata, policy.options, options, now).ids)
    return frozenset()
