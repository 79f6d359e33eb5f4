"""Snapshots that have lost their manifest list, or a manifest. No engine can read them, and it is not known which files
they need.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakewarden.planners.formats.iceberg.backlog.blockers import is_encrypted
from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.deletion.lost_manifests import LostManifest, needed_by
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DELETING
from lakewarden.planners.formats.iceberg.metadata.files import missing
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import CleanOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

_AGAIN = timedelta(hours=6)
"""A listing of a folder with a manifest list for each of 10,000 snapshots takes 30 requests, so it is not read at each
observation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class UnreadableSnapshots:
    """The manifest lists and manifests that were lost at `seen_at`."""

    files: tuple[LostManifest, ...] = ()
    seen_at: datetime | None = None

    def looked_for(
        self, table: Table, metadata: TableMetadata, current: Sequence[Manifest], storage: Storage, *, now: datetime
    ) -> UnreadableSnapshots:
        """Look again if it is time to, or if some were lost. Look only if a policy of the table deletes files. If the
        store does not tell, nothing new is known. `current` are the manifests of the current snapshot.
        """
        if table.policies.keys().isdisjoint(DELETING):
            return UnreadableSnapshots()
        if not self.files and self.seen_at is not None and now - self.seen_at < _AGAIN:
            return self
        with contextlib.suppress(LakewardenError):
            return UnreadableSnapshots(files=tuple(_lost(metadata, current, storage)), seen_at=now)
        return self


def _lost(metadata: TableMetadata, current: Sequence[Manifest], storage: Storage) -> Iterator[LostManifest]:
    """Yield what is lost. The list of each snapshot is looked for. If a branch or a tag may keep an old snapshot for
    ever, its list is read, too, and its manifests are looked for. The run names what else is lost or damaged.
    """
    lists = {one.manifest_list: one.id for one in metadata.snapshots if one.manifest_list is not None}
    lost = dict.fromkeys(missing(lists, storage), False)
    needing = dict[str, Sequence[int]]()
    old = {ref.snapshot for ref in metadata.refs} - {metadata.current}
    if not is_encrypted(metadata):
        with contextlib.suppress(PermanentError):  # the run says what is wrong
            named = {path: one for path, one in lists.items() if one in old and path not in lost}
            needing.update(needed_by(named, storage, lost))
            lost |= dict.fromkeys(missing(needing, storage), False)
    its_own = {one.path for one in current}
    for path, is_damaged in lost.items():
        snapshots = [lists[path]] if path in lists else needing[path]
        if path in its_own and metadata.current is not None:
            snapshots = [*snapshots, metadata.current]
        yield LostManifest(path=path, is_list=path in lists, is_damaged=is_damaged, snapshots=tuple(snapshots))


def blocked_by_lost_manifests(
    lost: UnreadableSnapshots, table: Table, metadata: TableMetadata, now: datetime
) -> Iterator[Blocker]:
    """Yield what blocks clean and orphans. A clean that expires the snapshots helps itself. Of several files that the
    same snapshots have lost, one is named.
    """
    by_need = dict[tuple[int, ...], LostManifest]()
    for file in lost.files:
        if there := tuple(one for one in file.snapshots if one in metadata.by_id):
            by_need.setdefault(there, replace(file, snapshots=there))
    expiring = _expiring(table, metadata, now) if by_need else frozenset()
    for snapshots, file in by_need.items():
        stay = tuple(one for one in snapshots if one not in expiring)
        if not stay:
            yield Blocker(
                services=frozenset({Service.ORPHANS}),
                code="manifest_list_lost",
                reason=f"{file.holder(metadata)} has lost its manifest{file.what}, and has not expired yet",
                remedy="nothing if clean runs: it expires the snapshot. Then orphans deletes the files that it alone "
                "needed",
            )
            continue
        held = replace(file, snapshots=stay)
        yield Blocker(
            services=frozenset(DELETING),
            code="manifest_list_lost",
            reason=f"{held.holder(metadata)} has lost its manifest{held.what}: which files it needs is not known",
            remedy=held.remedy(metadata),
        )


def _expiring(table: Table, metadata: TableMetadata, now: datetime) -> frozenset[int]:
    policy = table.policies.get(Service.CLEAN)
    if policy is None or not isinstance(policy.options, CleanOptions):
        return frozenset()
    options = table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()
    with contextlib.suppress(LakewardenError):  # then clean is blocked by that
        return frozenset(expirable(metadata, policy.options, options, now).ids)
    return frozenset()
