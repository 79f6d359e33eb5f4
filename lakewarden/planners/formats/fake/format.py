"""The fake format as a TableFormat: a folder of JSON files becomes a TableView, read through Storage alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lakewarden.planners.formats.fake.layout import (
    CLAIM,
    HEARTBEATS,
    PROPERTIES,
    TIMELINE,
    WINDOW,
    Action,
    TimelineFile,
    parse,
)
from lakewarden.planners.formats.fake.options import (
    FakeArchiveOptions,
    FakeCleanOptions,
    FakeClusteringOptions,
    FakeCompactionOptions,
    FakeTableOptions,
)
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Deed, Instant, PlanSize, RunId, Service, State
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Backlog, Hindrance, TableIdentity, TableView, WriteFailure, WriterActivity
from lakewarden.planners.ports import (
    Contradiction,
    FileEntry,
    Listing,
    Observation,
    Storage,
    WriterEngine,
    WriterOption,
)
from lakewarden.planners.settings import Settings

_TICK = timedelta(seconds=2)
_STANDS_FOR: Mapping[Action, Service | Deed] = {
    Action.WRITE: Deed.WRITE,
    Action.COMPACTION: Service.COMPACTION,
    Action.CLUSTERING: Service.CLUSTERING,
    Action.CLEAN: Service.CLEAN,
}


class _Known(NamedTuple):
    """A timeline file's content, with the size and time of the file it was read from."""

    size: int
    modified: datetime
    content: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Reading:
    """One pass over the timeline's files."""

    storage: Storage
    folder: str
    remembered: Mapping[str, _Known]
    kept: dict[str, _Known] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def content(self, entry: FileEntry) -> Mapping[str, Any] | None:
        """Return a file's content; None, and a fault, if it cannot be read."""
        known = self.remembered.get(entry.name)
        if known is None or (known.size, known.modified) != (entry.size, entry.modified):
            try:
                content = json.loads(self.storage.read(f"{self.folder}/{entry.name}"))
                datetime.fromisoformat(content["at"])
            except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
                self.faults.append(f"{entry.name} cannot be read: {type(error).__name__}")
                return None
            known = _Known(size=entry.size, modified=entry.modified, content=content)
        self.kept[entry.name] = known
        return known.content


class FakeFormat:
    """Supports one service of each kind that the road knows: compaction (executed apart from its commit), clustering
    (joined, makes writers fail), clean (joined, deletes), archive (joined, not on the timeline).

    A table without a lock (`locked: false`) is hindered, as real ones are.
    """

    @property
    def name(self) -> str:
        """Return `fake`."""
        return "fake"

    @property
    def table_options(self) -> type[Settings]:
        """Return the type of a fake table's options."""
        return FakeTableOptions

    @property
    def catalog_settings(self) -> Any:
        """Return None: its tables are found by their paths."""
        return None

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return none: its tables are found by their paths."""
        return Listing()

    @property
    def services(self) -> Mapping[Service, type[Settings]]:
        """Return the services, with the types of their options."""
        return {
            Service.COMPACTION: FakeCompactionOptions,
            Service.CLUSTERING: FakeClusteringOptions,
            Service.CLEAN: FakeCleanOptions,
            Service.ARCHIVE: FakeArchiveOptions,
        }

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return nothing: any options of a fake table go together."""
        return ()

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return the table's name in the catalog: there are none."""
        return f"catalog://{catalog}/{identifier}"

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return the table as it is."""
        return table

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return where a fake writer would announce its commits, and the services it leaves to Lakewarden."""
        if isinstance(table.options, FakeTableOptions) and not table.options.locked:
            raise PermanentError(f"table {table.id} names no lock: set options: {{locked: true}}")
        services = [
            WriterOption(key=f"fake.{service}", value="false", why=f"{service} is Lakewarden's")
            for service in table.policies
        ]
        return (WriterOption(key="fake.hook", value=hook_url, why="Lakewarden hears of each commit"), *services)

    def claim_location(self, table: Table) -> str | None:
        """Return a file in a folder of its own. Two executors of one plan damage a fake table, too."""
        return f"{table.location}/{CLAIM}"

    def token(self, table: Table, storage: Storage) -> str:
        """Return the stamps of the table's folder and of its timeline."""
        try:
            return f"{storage.stamp(table.location)}/{storage.stamp(f'{table.location}/{TIMELINE}')}"
        except FileNotFoundError as error:
            raise PermanentError(f"{table.location} holds no fake table: it has no {TIMELINE} folder") from error

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view. It may be kept as a Hudi table's: until a heartbeat runs out, or not at all."""
        token = self.token(table, storage)
        properties = _properties(table.location, storage)
        reading = _Reading(
            storage=storage,
            folder=f"{table.location}/{TIMELINE}",
            remembered={} if previous is None or previous.memo is None else previous.memo,
        )
        beats = {e.name: e.modified for e in _listing(f"{table.location}/{HEARTBEATS}", storage)}
        timeline = _timeline(reading, beats)
        options = table.options if isinstance(table.options, FakeTableOptions) else FakeTableOptions()
        view = TableView(
            identity=TableIdentity(location=table.location, created=properties["created"]),
            name=properties["name"],
            kind="FAKE",
            version="1",
            observed_at=now,
            timeline=timeline,
            writers=WriterActivity(
                in_flight=timeline.writes_in_flight(),
                last_commit_at=max((i.completed_at for i in _writes(timeline) if i.completed_at), default=None),
                failures=_failures(timeline, now),
            ),
            backlogs={service: _backlog(timeline, service) for service in self.services},
            hindrances=() if options.locked else (_UNLOCKED,),
            faults=tuple(reading.faults),
        )
        return Observation(
            token=token, view=view, memo=reading.kept, keep_until=_keep_until(view, reading.folder, storage, now)
        )

    def endangered(self, view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
        """Return the writes in flight that a compaction or a clustering would hurt, by the same rule as Hudi's."""
        writes = view.writers.in_flight
        match service, step:
            case (Service.COMPACTION, "plan") | (Service.CLUSTERING, _):
                return writes
            case Service.COMPACTION, "commit":
                return tuple(write for write in writes if instant is None or write.time < instant)
            case _:
                return ()

    def awaited(self, view: TableView, service: Service, *, step: str, instant: str | None) -> str | None:
        """Return None: a fake write compares itself with nothing."""
        return None


FAKE = FakeFormat()

_UNLOCKED = Hindrance(reason="no lock keeps us and the table's writers apart", remedy="set options: {locked: true}")


def _properties(location: str, storage: Storage) -> dict[str, str]:
    try:
        properties: dict[str, str] = json.loads(storage.read(f"{location}/{PROPERTIES}"))
    except FileNotFoundError as error:
        raise PermanentError(f"{location} holds no fake table: it has no {PROPERTIES}") from error
    except ValueError as error:
        raise TemporaryError(f"{location}/{PROPERTIES} is half-written") from error
    return properties


def _timeline(reading: _Reading, beats: Mapping[str, datetime]) -> Timeline:
    instants: dict[str, list[tuple[TimelineFile, Mapping[str, Any]]]] = {}
    for entry in sorted(_listing(reading.folder, reading.storage), key=lambda e: e.name):
        file = parse(entry.name)
        content = None if file is None else reading.content(entry)
        if file is not None and content is not None:
            instants.setdefault(file.time, []).append((file, content))
    return Timeline(instants=tuple(_instant(files, beats) for _, files in sorted(instants.items())))


def _instant(files: list[tuple[TimelineFile, Mapping[str, Any]]], beats: Mapping[str, datetime]) -> Instant:
    files.sort(key=lambda pair: pair[0].state)
    (_, request), (last, ending) = files[0], files[-1]
    completed = last.state is State.COMPLETED
    last_beat = None if completed else beats.get(last.time)
    run, named = request.get("run"), request.get("files")
    return Instant(
        time=last.time,
        action=last.action.value,
        stands_for=_STANDS_FOR[last.action],
        state=last.state,
        requested_at=datetime.fromisoformat(request["at"]),
        completed_time=ending["at"] if completed else None,
        completed_at=datetime.fromisoformat(ending["at"]) if completed else None,
        author=None if run is None else RunId(run),
        guarded_until=None if last_beat is None else last_beat + WINDOW,
        last_beat=last_beat,
        plan=None if named is None or completed else PlanSize(file_groups=len(named), bytes=None),
    )


def _writes(timeline: Timeline) -> list[Instant]:
    return [i for i in timeline.instants if i.stands_for is Deed.WRITE and not i.pending]


def _backlog(timeline: Timeline, service: Service) -> Backlog:
    """Count the writes since the service was last completed, and since it was last asked for."""
    writes = _writes(timeline)
    last = timeline.last_completed(service)
    plans = [i for i in timeline.instants if i.stands_for is service]
    serviced, asked = (last.time if last else ""), (plans[-1].time if plans else "")
    first = writes[0].completed_at if writes else None
    return Backlog(
        commits=sum(write.time > serviced for write in writes),
        commits_since_request=sum(write.time > asked for write in writes),
        since=last.completed_at if last else first,
        since_request=plans[-1].requested_at if plans else first,
        rewrites=sum(
            i.time > serviced and not i.pending and i.stands_for in (Service.COMPACTION, Service.CLUSTERING)
            for i in timeline.instants
        ),
    )


def _failures(timeline: Timeline, now: datetime) -> tuple[WriteFailure, ...]:
    """Return the writes whose heartbeat has run out."""
    return tuple(
        WriteFailure(
            instant=write.time,
            begun_at=write.requested_at,
            at=max(write.guarded_until, write.requested_at),
            reason="its heartbeat ran out",
        )
        for write in timeline.writes_in_flight()
        if write.guarded_until is not None and write.guarded_until <= now
    )


def _listing(folder: str, storage: Storage) -> Sequence[FileEntry]:
    try:
        return storage.listing(folder)
    except FileNotFoundError:
        return ()


def _keep_until(view: TableView, folder: str, storage: Storage, now: datetime) -> datetime | None:
    changed = storage.changed_at(folder)
    if view.faults or (changed is not None and now - changed < _TICK):
        return now
    if any(write.guarded_until is None for write in view.writers.in_flight):
        return now
    return min((i.guarded_until for i in view.timeline.instants if i.guarded_until is not None), default=None)
