"""An observation of a Hudi table: its properties, a listing of its timeline, and the payloads not read before."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from lakewarden.planners.formats.hudi.backlog.backlog import backlogs
from lakewarden.planners.formats.hudi.backlog.blockers import (
    blockers,
    in_the_future,
    kept_more,
    mending,
    notes,
    returning_keys,
    warnings,
)
from lakewarden.planners.formats.hudi.backlog.neglected import recovery_notes, uncleaned_of
from lakewarden.planners.formats.hudi.deletion import expiry, readers
from lakewarden.planners.formats.hudi.deletion.foreign import TimelineRoot, foreign_plans, stray_folder
from lakewarden.planners.formats.hudi.deletion.foreign import blocker as stray_blocker
from lakewarden.planners.formats.hudi.deletion.foreign import blockers as foreign_blockers
from lakewarden.planners.formats.hudi.indexes.file_groups import file_groups, why_not_clustered
from lakewarden.planners.formats.hudi.indexes.indexes import blockers as index_blockers
from lakewarden.planners.formats.hudi.indexes.indexes import read_indexes
from lakewarden.planners.formats.hudi.indexes.metadata_table import metadata_backlog, metadata_instants, unusable
from lakewarden.planners.formats.hudi.metadata import savepoints
from lakewarden.planners.formats.hudi.metadata.heartbeats import guarded, last_beats
from lakewarden.planners.formats.hudi.metadata.names import InstantFiles, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.payloads import left_out, missed, not_whole
from lakewarden.planners.formats.hudi.metadata.properties import (
    HOME,
    TIMELINE,
    TableProperties,
    read_table_properties,
)
from lakewarden.planners.formats.hudi.metadata.timeline import Known, know, last_clean, timeline_of
from lakewarden.planners.formats.hudi.metadata.tokens import Memo, Reading, table_identity
from lakewarden.planners.formats.hudi.metadata.zone import ZoneFinding, find_zone, witnesses
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions
from lakewarden.planners.formats.hudi.writers import non_blocking
from lakewarden.planners.formats.hudi.writers.activity import touches, touching, writer_activity
from lakewarden.planners.formats.hudi.writers.failures import write_failures
from lakewarden.planners.model.instant import InstantKind, Service, State, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage.content import listed

_TICK = timedelta(seconds=2)


def observed(
    table: Table, storage: Storage, previous: Observation | None, *, token: str, commits: bool, now: datetime
) -> Observation:
    """Return the table as it is now, under the token that was read before. With `commits` the view also shows what each
    completed commit wrote.

    Raises PermanentError or TemporaryError if the table's properties cannot be read.
    """
    properties = read_table_properties(table.location, storage)
    reading = Reading(
        storage=storage,
        folder=properties.timeline_folder,
        remembered=Memo() if previous is None or previous.memo is None else previous.memo,
    )
    seen = Timeline(instants=()) if previous is None else previous.view.timeline
    view = _view(table, properties, reading, seen, commits=commits, now=now)
    keep_until = _keep_until(view, table, storage, properties, now)
    return Observation(token=token, view=view, memo=reading.memo(), keep_until=keep_until)


def _view(
    table: Table, properties: TableProperties, reading: Reading, seen: Timeline, *, commits: bool, now: datetime
) -> TableView:
    storage, layout = reading.storage, properties.layout
    instants = _timeline_files(reading, seen, layout)
    known_instants = [
        know(files, reading, layout=layout, merge_on_read=properties.merge_on_read, commits=commits)
        for files in instants
    ]
    options = table.options if isinstance(table.options, HudiTableOptions) else HudiTableOptions()
    finding = _zone(table, options, properties, known_instants)
    timeline = _timeline(table.location, storage, known_instants, finding.zone)
    timeline = guarded(timeline, seen, lazy=options.failed_writes == "lazy", now=now)
    groups = reading.derive(_sources(known_instants), file_groups, known_instants, layout) if commits else None
    indexes = read_indexes(table.location, properties, storage)
    metadata, foreign = _foreign(table.location, properties, instants, reading)
    of_indexes = index_blockers(indexes, properties, timeline, conf=options.conf)
    names = non_blocking.found_in(table, options, known_instants, properties, reading)
    of_names = non_blocking.warning(options, properties, names)
    positions = readers.read_positions(options.readers, timeline, storage, now=now)
    in_buckets = names in (non_blocking.Names.OF_BUCKETS, non_blocking.Names.SHARED)
    of_keys = returning_keys(table, options, properties, in_buckets=in_buckets)
    untold = expiry.untold(table, known_instants, storage)
    of_table = (
        *filter(
            None, (_not_clustered(table, options, storage, names), non_blocking.not_deleted(table, options, names))
        ),
        *_savepoints(table, timeline, storage),
        *readers.blockers(positions),
        *expiry.blockers(untold),
    )
    all_blockers = (*foreign, *of_indexes, *of_table, *blockers(table, options, timeline, properties, now=now))
    if finding.blocker:
        all_blockers = (*all_blockers, finding.blocker)
    elif (ahead := in_the_future(timeline, now)) is not None:
        all_blockers = (*all_blockers, ahead[0])
    cleaned = last_clean(known_instants, reading)
    left = uncleaned_of(
        table,
        timeline,
        retained=None if cleaned is None else cleaned.retained,
        now=now,
        needed=min((position.needs for position in positions if position.needs is not None), default=None),
    )
    return TableView(
        identity=table_identity(table.location, storage),
        name=properties.name,
        kind=sys.intern(properties.kind),
        version=sys.intern(properties.version),
        observed_at=now,
        timeline=timeline,
        writers=writer_activity(
            timeline,
            failures=write_failures(known_instants, timeline, reading, properties, zone=finding.zone, now=now),
            touches=touches(known_instants, timeline.instants) if commits else None,
            touching=touching(known_instants, timeline.instants, reading),
            non_blocking=non_blocking.believed(options, properties, names),
        ),
        backlogs=backlogs(
            table, timeline, properties, cleaned=cleaned, uncleaned=left, groups=groups, untold=untold, now=now
        ),
        blockers=all_blockers,
        faults=tuple(reading.faults),
        mending=mending(reading.faults, layout),
        warnings=(
            *warnings(options, properties, known_instants),
            *([] if of_names is None else [of_names]),
            *reading.remarks,
        ),
        notes=_notes(
            notes(timeline, now=now),
            {service: (note,) for service, note in of_keys.items()},
            savepoints.notes(timeline),
            readers.notes(positions),
            expiry.notes(table, untold),
            recovery_notes(table, timeline, left),
        ),
        readers=positions,
        kept_more=kept_more(table, timeline, cleaned),
        inner=() if metadata is None else (metadata_backlog(metadata, properties, timeline, zone=finding.zone),),
    )


def _not_clustered(
    table: Table, options: HudiTableOptions, storage: Storage, names: non_blocking.Names | None
) -> Blocker | None:
    """Return why the clustering that the table's policies ask for must not run."""
    if Service.CLUSTERING not in table.policies:
        return None
    declared = BucketIndex.SIMPLE if names is non_blocking.Names.SHARED else options.declared_index
    return why_not_clustered(declared, table.location, storage)


def _savepoints(table: Table, timeline: Timeline, storage: Storage) -> tuple[Blocker, ...]:
    """Return what savepoints block, and what blocks the savepoints of the policies."""
    ours = savepoints.left_half_way(table.location, storage) if savepoints.in_flight(timeline) else None
    return tuple(savepoints.blockers(timeline, ours=ours, wanted=Service.SAVEPOINT in table.policies))


def _notes(*several: Mapping[Service, tuple[str, ...]]) -> Mapping[Service, tuple[str, ...]]:
    services = dict.fromkeys(service for notes in several for service in notes)
    return {service: tuple(note for notes in several for note in notes.get(service, ())) for service in services}


def _foreign(
    location: str, properties: TableProperties, instants: Sequence[InstantFiles], reading: Reading
) -> tuple[Sequence[InstantFiles] | None, tuple[Blocker, ...]]:
    """Return the instants of the metadata table, if there is one. Return also the blockers for foreign plans in either
    timeline, and for commits that the metadata table lacks.

    Plans are rare and short-lived in a metadata table, so they are read each time.
    """
    table, beside = TimelineRoot.of_table(location, properties), TimelineRoot.of_metadata(location, properties)
    metadata = metadata_instants(beside.timeline, properties, reading.storage)
    afresh = Reading(storage=reading.storage, folder=beside.timeline, remembered=Memo())
    plans = (*foreign_plans(metadata or (), beside, afresh), *foreign_plans(instants, table, reading))
    stray = stray_folder(location, properties)
    wrong = unusable(metadata or (), instants, properties)
    blockers = (*foreign_blockers(plans), *(() if wrong is None else (wrong,)))
    return metadata, blockers if stray is None else (stray_blocker(stray), *blockers)


def _sources(known_instants: Sequence[Known]) -> tuple[str, ...]:
    """Return the files that tell what the completed commits wrote. A file that could not be read has an empty name."""
    completed = (
        (known_instant, known_instant.files.completed) for known_instant in known_instants if known_instant.is_commit
    )
    return tuple(
        "" if known_instant.written is None else entry.name for known_instant, entry in completed if entry is not None
    )


def _zone(
    table: Table, options: HudiTableOptions, properties: TableProperties, known_instants: Sequence[Known]
) -> ZoneFinding:
    """Find the timeline's zone. Instants of writers are used before those of services, which Lakewarden may have
    stamped.

    Before the first completed instant nothing proves the zone, and no service has anything to do.
    """
    done = [instant for instant in known_instants if instant.files.state is State.COMPLETED]
    if not done and options.timeline_timezone is None:
        return ZoneFinding(zone=UTC if properties.zone == "UTC" else table.zone)
    instants = [instant.files for instant in done if instant.stands_for is InstantKind.WRITE] or [
        instant.files for instant in done
    ]
    return find_zone(
        witnesses(instants, properties.layout),
        declared=options.timeline_timezone,
        stated=properties.zone,
        workers=table.zone,
    )


def _timeline(location: str, storage: Storage, known_instants: Sequence[Known], zone: tzinfo) -> Timeline:
    if all(instant.files.state is State.COMPLETED for instant in known_instants):
        return timeline_of(known_instants, zone=zone, beats={})
    return timeline_of(known_instants, zone=zone, beats=last_beats(listed(f"{location}/{HOME}/.heartbeat", storage)))


def _timeline_files(reading: Reading, seen: Timeline, layout: Layout) -> Sequence[InstantFiles]:
    """Return the timeline's files, by their instants. It is a fault if instants that were `seen` before are there but
    not listed. If the storage knows empty folders, a missing folder is also a fault: the timeline is lost, and not
    only new.
    """
    entries = listed(reading.folder, reading.storage)
    if not entries and _is_gone(reading.folder, reading.storage):
        reading.faults.append(f"the timeline's folder {reading.folder} is missing")
    reading.unlisted.extend(left_out(reading.remembered.unlisted, entries, reading.folder, reading.storage))
    instants = collapse(entries, layout)
    reading.unlisted.extend(missed(seen, entries, instants, reading.folder, reading.storage))
    if reading.unlisted:
        reading.faults.append(not_whole(reading.folder, reading.unlisted))
    return instants


def _is_gone(folder: str, storage: Storage) -> bool:
    try:
        storage.changed_at(folder)
    except FileNotFoundError:
        return True
    return False


def _keep_until(
    view: TableView, table: Table, storage: Storage, properties: TableProperties, now: datetime
) -> datetime | None:
    """Return until when an equal token vouches for the view. Folders are stamped after they were read."""
    home = f"{table.location}/{HOME}"
    watched = {home, f"{home}/{TIMELINE}"}
    if view.faults or properties.damage or properties.timeline_folder not in watched:
        return now
    if any(_is_young(folder, storage, now) for folder in {home, properties.timeline_folder}):
        return now
    if any(write.guarded_until is None for write in view.writers.in_flight):
        return now
    if view.backlogs[Service.CATALOG_SYNC].commits:
        return now  # no token shows whether the catalog knows the deletion
    ends = [i.guarded_until for i in view.timeline.instants if i.guarded_until is not None]
    ends += [now + readers.LOOKED_AT] if view.readers else []
    ends += [] if (ahead := in_the_future(view.timeline, now)) is None else [ahead[1]]
    return min(ends, default=None)


def _is_young(folder: str, storage: Storage, now: datetime) -> bool:
    """Whether a folder changed so recently that its token may miss a further change. A folder that is gone counts."""
    try:
        changed = storage.changed_at(folder)
    except FileNotFoundError:
        return True
    return changed is not None and now - changed < _TICK
