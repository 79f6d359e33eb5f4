"""One look at an Iceberg table: its metadata file, the manifest list, and the manifests that were not read before."""

from __future__ import annotations

import posixpath
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b

from lakewarden.planners.formats.iceberg.backlog.hindrances import is_encrypted
from lakewarden.planners.formats.iceberg.backlog.holdings import Holdings
from lakewarden.planners.formats.iceberg.backlog.memo import Memo, Reading
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
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.identity import table_identity
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.tallies import Tallies
from lakewarden.planners.formats.iceberg.metadata.timeline import timeline_of, writes_of
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import ContradictoryThresholdsError, thresholds
from lakewarden.planners.formats.iceberg.writers.activity import usual_interval, writer_activity
from lakewarden.planners.formats.iceberg.writers.cold import with_new_ones, with_rhythm
from lakewarden.planners.formats.iceberg.writers.touches import (
    is_update,
    newest_touches,
    newest_updates,
    recent_updates,
)
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView, WriterActivity
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage.locations import canonical_location

_REWRITES = frozenset({Service.COMPACTION, Service.CLUSTERING})


def observed(
    table: Table,
    storage: Storage,
    previous: Observation | None,
    *,
    pointer: Pointer,
    token: str,
    now: datetime,
    patience: timedelta | None = None,
) -> Observation:
    """Return the table as the metadata file says that `pointer` names, under the token that was read with it.

    With `patience` no more manifests are read after it; which is a fault of the view, and the next look goes on.

    Raises PermanentError where that file is none, VanishedError where it is not there, TemporaryError where it cannot
    be read. Manifests that cannot be read, or are not there, are faults of the view.
    """
    remembered = Memo() if previous is None or previous.memo is None else previous.memo
    metadata = read_table(pointer.metadata_file, storage, told=remembered.told)
    ends_at = None if patience is None else time.monotonic() + patience.total_seconds()
    reading = Reading(storage=storage, metadata=metadata, remembered=remembered, ends_at=ends_at)
    manifests = () if is_encrypted(metadata) else reading.manifests(metadata.current_snapshot)
    holdings, tallies = _holdings(table, reading, manifests) if counts_files(table) else (Holdings(), Tallies())
    activity = _activity(table, reading, holdings)
    plans = tuple(_plans(reading))
    timeline = timeline_of(metadata, instants(plans))
    waiting = waits_until(plans, Service.ORPHANS)
    needs = needs_of(
        table, metadata, holdings, manifests, activity, timeline=timeline, orphans_wait_until=waiting, now=now
    )
    view = TableView(
        identity=table_identity(table.location, metadata),
        name=_name(table.location),
        kind=sys.intern(f"v{metadata.format_version}"),
        version=sys.intern(str(metadata.format_version)),
        observed_at=now,
        timeline=timeline,
        writers=activity,
        backlogs=needs.backlogs,
        hindrances=needs.hindrances,
        faults=tuple(dict.fromkeys(reading.faults)),
        warnings=needs.warnings,
        at_rest=needs.at_rest,
        waits=needs.waits,
        notes=needs.notes,
    )
    keep_until = _keep_until(view, needs.changes_at)
    return Observation(token=token, view=view, memo=reading.memo(tallies), lasting=True, keep_until=keep_until)


def _keep_until(view: TableView, changes_at: datetime | None) -> datetime | None:
    """Return how long an equal token vouches for the view: not at all where something could not be read, or where a
    plan of ours is being carried out, of which not every token tells.
    """
    under_way = any(instant.pending for instant in view.timeline.instants)
    return view.observed_at if view.faults or under_way else changes_at


def counts_files(table: Table) -> bool:
    """Whether a policy of the table depends on its files, and not only on its snapshots: then every manifest is read,
    and some forty bytes are kept of each file.
    """
    return not _REWRITES.isdisjoint(table.policies)


def _holdings(table: Table, reading: Reading, manifests: Sequence[Manifest]) -> tuple[Holdings, Tallies]:
    held = reading.held(manifests)
    if Service.CLUSTERING in table.policies:
        return held.everything(), Tallies()
    policy = table.policies.get(Service.COMPACTION)
    options = policy.options if policy is not None and isinstance(policy.options, CompactionOptions) else None
    try:
        rules = thresholds(options or CompactionOptions(), reading.metadata.properties)
    except ContradictoryThresholdsError:
        rules = thresholds(CompactionOptions(), {})  # nothing is compacted by them: the service is hindered
    return held.holdings(reading.metadata, rules, reading.remembered.tallies)


def _activity(table: Table, reading: Reading, holdings: Holdings) -> WriterActivity:
    metadata = reading.metadata
    writes = writes_of(metadata)
    if not counts_files(table):
        return writer_activity(writes, touches=None, updated=None, update_interval=None)
    updates = [one for one in writes if one.operation != "append" and is_update(one)]
    interval = usual_interval(one.at for one in updates)
    recent = recent_updates(updates, _options(table), interval)
    written = tuple(holdings.written())
    updated = with_rhythm(newest_updates((one, reading.partitions_of(one)) for one in recent), written, updates)
    touches = newest_touches(written, metadata, updated)
    updated = with_new_ones(updated, written, writes)
    return writer_activity(writes, touches=touches, updated=updated, update_interval=interval)


def _plans(reading: Reading) -> Iterator[PlanBeside | None]:
    """Yield our plans beside the table. One that cannot be read is a fault."""
    metadata = reading.metadata
    for service in DELETING:
        try:
            yield plan_beside(service, canonical_location(metadata.location), reading.storage, uuid=metadata.uuid)
        except PermanentError as error:
            reading.faults.append(str(error))


def plans_token(table: Table, metadata_file: str, storage: Storage) -> str:
    """Return a text that changes with our plans beside the table: a request for each service of its policies that makes
    such plans, none where it has no such policy.

    A table keeps its metadata files in a folder of its own, unless `write.metadata.path` names another.
    """
    services = [service for service in DELETING if service in table.policies]
    folder = posixpath.dirname(posixpath.dirname(canonical_location(metadata_file))) if services else ""
    return "".join(f"/{_digest(file_of(service, folder), storage)}" for service in services)


def _digest(file: str, storage: Storage) -> str:
    try:
        return blake2b(storage.read(file), digest_size=8).hexdigest()
    except FileNotFoundError:
        return ""


def _options(table: Table) -> IcebergTableOptions:
    return table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()


def _name(location: str) -> str:
    """Return what people call the table: its identifier, or its folder."""
    return posixpath.basename(location)
