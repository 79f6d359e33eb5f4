"""One look at an Iceberg table: its metadata file, the manifest list, and the manifests that were not read before."""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Sequence
from datetime import datetime

from lakewarden.planners.formats.iceberg.activity import usual_interval, writer_activity
from lakewarden.planners.formats.iceberg.digests import LiveFile
from lakewarden.planners.formats.iceberg.files import read_table
from lakewarden.planners.formats.iceberg.identity import table_identity
from lakewarden.planners.formats.iceberg.manifests import Manifest
from lakewarden.planners.formats.iceberg.memo import Memo, Reading
from lakewarden.planners.formats.iceberg.options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.standin import Pointer, needs_of
from lakewarden.planners.formats.iceberg.timeline import stands_for, timeline_of
from lakewarden.planners.formats.iceberg.touches import is_update, newest_touches, newest_updates, recent_updates
from lakewarden.planners.model.instant import Deed, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView, WriterActivity
from lakewarden.planners.ports import Observation, Storage

_REWRITES = frozenset({Service.COMPACTION, Service.CLUSTERING})


def observed(
    table: Table, storage: Storage, previous: Observation | None, *, pointer: Pointer, now: datetime
) -> Observation:
    """Return the table as the metadata file says that `pointer` names.

    Raises PermanentError where that file is none, VanishedError where it is not there, TemporaryError where it cannot
    be read. Manifests that cannot be read, or are not there, are faults of the view.
    """
    metadata = read_table(pointer.metadata_file, storage)
    remembered = Memo() if previous is None or previous.memo is None else previous.memo
    reading = Reading(storage=storage, metadata=metadata, remembered=remembered)
    manifests = reading.manifests(metadata.current_snapshot)
    files = _files(reading, manifests) if counts_files(table) else ()
    activity = _activity(table, reading, files)
    timeline = timeline_of(metadata)
    needs = needs_of(table, metadata, files, manifests, activity, timeline, now=now)
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
        faults=tuple(reading.faults),
        warnings=needs.warnings,
        at_rest=needs.at_rest,
        notes=needs.notes,
    )
    keep_until = now if view.faults else needs.changes_at
    return Observation(token=pointer.token, view=view, memo=reading.memo(), keep_until=keep_until)


def counts_files(table: Table) -> bool:
    """Whether a policy of the table depends on its files, and not only on its snapshots: then every manifest is read,
    and some forty bytes are kept of each file.
    """
    return not _REWRITES.isdisjoint(table.policies)


def _files(reading: Reading, manifests: Sequence[Manifest]) -> tuple[LiveFile, ...]:
    digests = map(reading.digest, manifests)
    return tuple(file for digest in digests if digest is not None for file in digest.live())


def _activity(table: Table, reading: Reading, files: Sequence[LiveFile]) -> WriterActivity:
    metadata = reading.metadata
    writes = [one for one in metadata.ancestors(metadata.current) if stands_for(one) is Deed.WRITE]
    if not counts_files(table):
        return writer_activity(writes, touches=None, updated=None, update_interval=None)
    updates = [one for one in writes if is_update(one)]
    interval = usual_interval(one.at for one in updates)
    updated = newest_updates(
        (one, reading.partitions_of(one)) for one in recent_updates(updates, _options(table), interval)
    )
    touches = newest_touches(files, metadata, updated)
    return writer_activity(writes, touches=touches, updated=updated, update_interval=interval)


def _options(table: Table) -> IcebergTableOptions:
    return table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()


def _name(location: str) -> str:
    """Return what people call the table: its identifier, or its folder."""
    return posixpath.basename(location)
