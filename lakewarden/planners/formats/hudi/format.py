"""Apache Hudi as a TableFormat: the metadata of table versions 6, 8 and 9 becomes a TableView, without a JVM."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from lakewarden.planners.formats.hudi.backlog import backlogs
from lakewarden.planners.formats.hudi.endangered import endangered_writes
from lakewarden.planners.formats.hudi.heartbeats import last_beats
from lakewarden.planners.formats.hudi.hindrances import hindrances, warnings
from lakewarden.planners.formats.hudi.identity import table_identity
from lakewarden.planners.formats.hudi.locks import misplaced
from lakewarden.planners.formats.hudi.memo import Reading
from lakewarden.planners.formats.hudi.names import collapse
from lakewarden.planners.formats.hudi.options import HudiTableOptions
from lakewarden.planners.formats.hudi.service_options import CleanOptions, CompactionOptions
from lakewarden.planners.formats.hudi.table_properties import HOME, TIMELINE, TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.timeline import Known, cleaned_up_to, know, timeline_of
from lakewarden.planners.formats.hudi.writer_options import writer_options
from lakewarden.planners.formats.hudi.writers import writer_activity
from lakewarden.planners.formats.hudi.zone import ZoneFinding, find_zone, witnesses
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Deed, Instant, Service, State
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Contradiction, FileEntry, Observation, Storage, WriterEngine, WriterOption
from lakewarden.planners.settings import Settings

_TICK = timedelta(seconds=2)


class HudiFormat:
    """Reads `.hoodie`: two stats for a token; for an observation the properties, a listing of the timeline (of the
    heartbeats too while something is pending), and those payloads that were not read before.
    """

    @property
    def name(self) -> str:
        """Return `hudi`."""
        return "hudi"

    @property
    def table_options(self) -> type[Settings]:
        """Return the type of a Hudi table's options."""
        return HudiTableOptions

    @property
    def services(self) -> Mapping[Service, type[Settings]]:
        """Return compaction and clean, with the types of their options."""
        return {Service.COMPACTION: CompactionOptions, Service.CLEAN: CleanOptions}

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return a lock provider that cannot work where the table is."""
        lock = table.options.lock if isinstance(table.options, HudiTableOptions) else None
        reason = None if lock is None else misplaced(lock, table.location)
        return () if reason is None else (Contradiction(key="options.lock.provider", reason=reason),)

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return the lock, multi-writer mode, the commit callback, and the services that are Lakewarden's."""
        return writer_options(table, engine=engine, hook_url=hook_url, worst_hold=worst_hold)

    def token(self, table: Table, storage: Storage) -> str:
        """Return the stamps of `.hoodie` (layout 1's timeline, and the properties) and of layout 2's timeline."""
        home = f"{table.location}/{HOME}"
        try:
            stamp = storage.stamp(home)
        except FileNotFoundError as error:
            raise PermanentError(f"{table.location} holds no Hudi table: it has no {HOME} folder") from error
        try:
            return f"{stamp}/{storage.stamp(f'{home}/{TIMELINE}')}"
        except FileNotFoundError:
            return stamp

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view.

        An equal token vouches for it until the next heartbeat that guards something pending runs out; not at all
        if it has faults, its newest change is younger than two seconds, or a pending write has no heartbeat: that
        comes a moment after the write's first file, into a folder that the token does not watch.
        """
        token = self.token(table, storage)
        properties = read_table_properties(table.location, storage)
        reading = Reading(
            storage=storage,
            folder=properties.timeline_folder,
            remembered={} if previous is None else previous.memo,
        )
        view = _view(table, properties, reading, now)
        keep_until = _keep_until(view, table, storage, properties, now)
        return Observation(token=token, view=view, memo=reading.kept, keep_until=keep_until)

    def endangered(self, view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
        """Return the writes in flight that would fail if `service` now took `step`."""
        return endangered_writes(view, service, step=step, instant=instant)


HUDI = HudiFormat()


def _view(table: Table, properties: TableProperties, reading: Reading, now: datetime) -> TableView:
    storage = reading.storage
    known = [
        know(files, reading, layout=properties.layout, merge_on_read=properties.merge_on_read)
        for files in collapse(_listing(reading.folder, storage), properties.layout)
    ]
    options = table.options if isinstance(table.options, HudiTableOptions) else HudiTableOptions()
    finding = _zone(table, options, properties, known)
    timeline = _timeline(table.location, storage, known, finding.zone)
    found = hindrances(table, options, timeline, properties, now=now)
    cleaned = cleaned_up_to(known, reading)
    return TableView(
        identity=table_identity(table.location, storage),
        name=properties.name,
        kind=sys.intern(properties.kind),
        version=sys.intern(properties.version),
        observed_at=now,
        timeline=timeline,
        writers=writer_activity(timeline),
        backlogs=backlogs(timeline, properties, cleaned_up_to=cleaned),
        hindrances=(*found, finding.hindrance) if finding.hindrance else tuple(found),
        faults=tuple(reading.faults),
        warnings=warnings(options),
    )


def _zone(table: Table, options: HudiTableOptions, properties: TableProperties, known: Sequence[Known]) -> ZoneFinding:
    """Find the timeline's zone. Writers are asked before services, which may be our own.

    Before the first completed instant there is nothing to prove it by, and nothing to serve either.
    """
    done = [one for one in known if one.files.state is State.COMPLETED]
    if not done and options.timeline_timezone is None:
        return ZoneFinding(zone=UTC if properties.zone == "UTC" else table.zone)
    asked = [one.files for one in done if one.stands_for is Deed.WRITE] or [one.files for one in done]
    return find_zone(
        witnesses(asked, properties.layout),
        declared=options.timeline_timezone,
        stated=properties.zone,
        workers=table.zone,
    )


def _timeline(location: str, storage: Storage, known: Sequence[Known], zone: tzinfo) -> Timeline:
    if all(one.files.state is State.COMPLETED for one in known):
        return timeline_of(known, zone=zone, beats={})
    return timeline_of(known, zone=zone, beats=last_beats(_listing(f"{location}/{HOME}/.heartbeat", storage)))


def _listing(folder: str, storage: Storage) -> Sequence[FileEntry]:
    """Return a folder's entries; none if it is missing, as empty folders are in object stores."""
    try:
        return storage.listing(folder)
    except FileNotFoundError:
        return ()


def _keep_until(
    view: TableView, table: Table, storage: Storage, properties: TableProperties, now: datetime
) -> datetime | None:
    """Return how long an equal token vouches for the view. The times are read after what they are to vouch for."""
    home = f"{table.location}/{HOME}"
    watched = {home, f"{home}/{TIMELINE}"}
    if view.faults or properties.timeline_folder not in watched:
        return now
    changes = [storage.changed_at(folder) for folder in {home, properties.timeline_folder}]
    if any(change is not None and now - change < _TICK for change in changes):
        return now
    if any(write.guarded_until is None for write in view.writers.in_flight):
        return now
    guards = [i.guarded_until for i in view.timeline.instants if i.guarded_until is not None]
    return min(guards, default=None)
