"""One observation of an Iceberg table. It reads the metadata file, the manifest list, and the manifests that were not
read before.
"""

from __future__ import annotations

import posixpath
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

from lakewarden.planners.formats.iceberg.backlog.blockers import (
    blocked_by_lost_manifests,
    folder_of,
    folders_of,
    is_encrypted,
)
from lakewarden.planners.formats.iceberg.backlog.memo import Holdings, ManifestPass, Memo
from lakewarden.planners.formats.iceberg.backlog.needs import needs_of
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer
from lakewarden.planners.formats.iceberg.deletion.plans_beside import (
    DELETING,
    PlanBeside,
    file_of,
    instants,
    plan_beside,
    waits_until,
)
from lakewarden.planners.formats.iceberg.deletion.reachable import positions
from lakewarden.planners.formats.iceberg.deletion.refs import kept_more
from lakewarden.planners.formats.iceberg.metadata.files import Tallies, read_table
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata, table_identity
from lakewarden.planners.formats.iceberg.metadata.parsing import address_of
from lakewarden.planners.formats.iceberg.metadata.timeline import timeline_of
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.options.table_options import options_of
from lakewarden.planners.formats.iceberg.rewriting.deletes import blocked_by_dropped_columns
from lakewarden.planners.formats.iceberg.rewriting.rewrite_all import mark_of
from lakewarden.planners.formats.iceberg.rewriting.selection import ContradictoryThresholdsError, thresholds
from lakewarden.planners.formats.iceberg.writers.activity import (
    is_update,
    newest_touches,
    newest_updates,
    recent_updates,
    usual_interval,
    writer_activity,
)
from lakewarden.planners.formats.iceberg.writers.cold import REWRITES, with_new_ones, with_rhythm
from lakewarden.planners.formats.shared_folder import SharedFolders
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, TableView, WriterActivity
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage.locations import is_in_catalog


def observed(
    table: Table,
    storage: Storage,
    previous: Observation | None,
    *,
    pointer: Pointer,
    token: str,
    now: datetime,
    timeout: timedelta | None = None,
    shared: SharedFolders | None = None,
) -> Observation:
    """Return the table as its metadata file shows it. `pointer` names that file, and `token` was read with it. With
    `shared`, other tables in its folders are looked for.

    If `timeout` is over, no more manifests are read. The view then has a fault, and the next observation continues.

    Raises PermanentError if the file is no metadata file, VanishedError if it does not exist, and TemporaryError if it
    cannot be read. A manifest that is missing or cannot be read is a fault of the view.
    """
    remembered = Memo() if previous is None or previous.memo is None else previous.memo
    metadata = read_table(pointer.metadata_file, storage, told=remembered.told)
    ends_at = None if timeout is None else time.monotonic() + timeout.total_seconds()
    reading = ManifestPass(storage=storage, metadata=metadata, remembered=remembered, ends_at=ends_at)
    manifests = () if is_encrypted(metadata) else reading.manifests(metadata.current_snapshot)
    holdings, tallies = _holdings(table, reading, manifests) if counts_files(table) else (Holdings(), Tallies())
    activity = _activity(table, reading, holdings)
    plans = tuple(_plans(reading))
    lost = remembered.lost.looked_for(table, metadata, manifests, storage, now=now)
    timeline = timeline_of(metadata, instants(plans))
    of_dropped = tuple(_of_dropped(reading, manifests)) if metadata.dropped else ()
    versions = remembered.versions.looked(metadata, storage, now=now)
    behind = () if versions.blocker is None else (versions.blocker,)
    needs = needs_of(
        table,
        metadata,
        holdings,
        manifests,
        activity,
        timeline=timeline,
        orphans_wait_until=waits_until(plans, Service.ORPHANS),
        others=next((plan.others for plan in plans if plan is not None and plan.service is Service.ORPHANS), {}),
        now=now,
    )
    view = TableView(
        identity=table_identity(table.location, metadata),
        name=posixpath.basename(table.location),
        kind=sys.intern(f"v{metadata.format_version}"),
        version=sys.intern(str(metadata.format_version)),
        observed_at=now,
        timeline=timeline,
        writers=activity,
        backlogs=needs.backlogs,
        blockers=(
            *behind,
            *needs.blockers,
            *of_dropped,
            *blocked_by_lost_manifests(lost, table, metadata, now),
        ),
        faults=tuple(dict.fromkeys(reading.faults)),
        warnings=needs.warnings,
        at_rest=needs.at_rest,
        waits=needs.waits,
        notes=needs.notes,
        kept_more=kept_more(table, metadata.properties),
        rewrites_all=_rewrites_all(table, metadata),
        readers=tuple(positions(options_of(table).readers, metadata, now)),
        folder=folder_of(metadata) if is_in_catalog(table.location) else "",
    )
    keep_until = now if lost.files or behind else _keep_until(view, needs.changes_at)
    observation = Observation(
        token=token, view=view, memo=reading.memo(tallies, lost, versions), lasting=True, keep_until=keep_until
    )
    if shared is None:
        return observation
    folders = folders_of(metadata, options_of(table))
    return shared.of(folders, storage, now=now, properties=metadata.properties).shown_in(observation, now=now)


def _of_dropped(reading: ManifestPass, manifests: Sequence[Manifest]) -> Iterator[Blocker]:
    """Yield what blocks services because deletes of main, of another branch or of a tag name a dropped column."""
    metadata = reading.metadata
    deletes = [manifest for manifest in manifests if manifest.of_deletes]
    yield from blocked_by_dropped_columns(reading.held(deletes).deletes, metadata)
    for ref in metadata.refs:
        head = metadata.by_id[ref.snapshot]
        if head.id != metadata.current and head.summary.get(_DELETE_FILES) != "0" and not is_encrypted(metadata):
            deletes = [manifest for manifest in reading.manifests(head) if manifest.of_deletes]
            yield from blocked_by_dropped_columns(reading.held(deletes).deletes, metadata, ref=ref)


_DELETE_FILES = "total-delete-files"
"""How many delete files a snapshot has, in its summary."""


def _keep_until(view: TableView, changes_at: datetime | None) -> datetime | None:
    """Return until when an equal token vouches for the view. That is the time of the observation if the view has
    faults. It is the same if a plan of Lakewarden is being executed, because the token does not always change with it.
    """
    under_way = any(instant.pending for instant in view.timeline.instants)
    return view.observed_at if view.faults or under_way else changes_at


def _rewrites_all(table: Table, metadata: TableMetadata) -> Mapping[Service, str | Blocker]:
    services = REWRITES & table.policies.keys()
    return dict.fromkeys(services, mark_of(metadata)) if services else {}


def counts_files(table: Table) -> bool:
    """Whether a policy of the table depends on its files, and not only on its snapshots. Then every manifest is read,
    and about 40 bytes are kept for each file.
    """
    return not REWRITES.isdisjoint(table.policies)


def _holdings(table: Table, reading: ManifestPass, manifests: Sequence[Manifest]) -> tuple[Holdings, Tallies]:
    held = reading.held(manifests)
    if Service.CLUSTERING in table.policies:
        return held.everything(), Tallies()
    policy = table.policies.get(Service.COMPACTION)
    configured = policy.options if policy is not None and isinstance(policy.options, CompactionOptions) else None
    options = configured or CompactionOptions()
    try:
        rules = thresholds(options, reading.metadata.properties)
    except ContradictoryThresholdsError:  # the service is blocked, so nothing is compacted by these options
        rules = thresholds(CompactionOptions(), {})
    return held.holdings(reading.metadata, rules, reading.remembered.tallies)


def _activity(table: Table, reading: ManifestPass, holdings: Holdings) -> WriterActivity:
    metadata = reading.metadata
    writes = metadata.writes()
    if not counts_files(table):
        return writer_activity(writes, touches=None, updated=None, update_interval=None)
    updates = [write for write in writes if write.operation != "append" and is_update(write)]
    interval = usual_interval(update.at for update in updates)
    recent = recent_updates(updates, options_of(table), interval)
    written = tuple(holdings.written())
    updated = with_rhythm(
        newest_updates((update, reading.partitions_of(update)) for update in recent), written, updates
    )
    touches = newest_touches(written, metadata, updated)
    updated = with_new_ones(updated, written, writes)
    return writer_activity(writes, touches=touches, updated=updated, update_interval=interval)


def _plans(reading: ManifestPass) -> Iterator[PlanBeside | None]:
    """Yield Lakewarden's plans beside the table. A plan that cannot be read is a fault."""
    metadata = reading.metadata
    for service in DELETING:
        try:
            yield plan_beside(service, address_of(metadata.location), reading.storage, uuid=metadata.uuid)
        except PermanentError as error:
            reading.faults.append(str(error))


def plans_token(table: Table, metadata_file: str, storage: Storage) -> str:
    """Return a text that changes with Lakewarden's plans beside the table. It costs one request for each service with a
    policy that makes such plans.

    A table keeps its metadata files in its folder `metadata`, unless `write.metadata.path` names another folder.
    """
    services = [service for service in DELETING if service in table.policies]
    folder = address_of(posixpath.dirname(posixpath.dirname(metadata_file))) if services else ""
    return "".join(f"/{_digest(file_of(service, folder), storage)}" for service in services)


def _digest(file: str, storage: Storage) -> str:
    try:
        return blake2b(storage.read(file), digest_size=8).hexdigest()
    except FileNotFoundError:
        return ""
