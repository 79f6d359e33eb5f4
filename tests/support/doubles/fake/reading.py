"""The files of a fake table become a timeline and backlogs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant, InstantKind, PlanSize, RunId, Service, State, Timeline
from lakewarden.planners.model.view import Backlog, TableView, WriteFailure
from lakewarden.planners.ports import (
    FileEntry,
    Storage,
)
from tests.support.doubles.fake.layout import (
    PROPERTIES,
    WINDOW,
    FakeAction,
    TimelineFile,
    parse,
)


class KnownFile(NamedTuple):
    """The content of a timeline file, with the size and the time of the file when it was read."""

    size: int
    modified: datetime
    content: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class FakeReading:
    """One pass over the files of the timeline."""

    storage: Storage
    folder: str
    remembered: Mapping[str, KnownFile]
    kept: dict[str, KnownFile] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def content(self, entry: FileEntry) -> Mapping[str, Any] | None:
        """Return the content of a file. If it cannot be read, note a fault and return None."""
        known = self.remembered.get(entry.name)
        if known is None or (known.size, known.modified) != (entry.size, entry.modified):
            try:
                content = json.loads(self.storage.read(f"{self.folder}/{entry.name}"))
                datetime.fromisoformat(content["at"])
            except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
                self.faults.append(f"{entry.name} cannot be read: {type(error).__name__}")
                return None
            known = KnownFile(size=entry.size, modified=entry.modified, content=content)
        self.kept[entry.name] = known
        return known.content


_TICK = timedelta(seconds=2)

_STANDS_FOR: Mapping[FakeAction, Service | InstantKind] = {
    FakeAction.WRITE: InstantKind.WRITE,
    FakeAction.COMPACTION: Service.COMPACTION,
    FakeAction.CLUSTERING: Service.CLUSTERING,
    FakeAction.CLEAN: Service.CLEAN,
}


def properties_of(location: str, storage: Storage) -> dict[str, str]:
    """Return the properties of a table. Raises an error if there is none."""
    try:
        properties: dict[str, str] = json.loads(storage.read(f"{location}/{PROPERTIES}"))
    except FileNotFoundError as error:
        raise PermanentError(f"{location} holds no fake table: it has no {PROPERTIES}") from error
    except ValueError as error:
        raise TemporaryError(f"{location}/{PROPERTIES} is half-written") from error
    return properties


def timeline_of(reading: FakeReading, beats: Mapping[str, datetime]) -> Timeline:
    """Return the timeline, as its files show it and with the heartbeats of `beats`."""
    instants: dict[str, list[tuple[TimelineFile, Mapping[str, Any]]]] = {}
    for entry in sorted(listing_of(reading.folder, reading.storage), key=lambda e: e.name):
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


def writes_of(timeline: Timeline) -> list[Instant]:
    """Return the completed writes of a timeline."""
    return [i for i in timeline.instants if i.stands_for is InstantKind.WRITE and not i.pending]


def backlog_of(timeline: Timeline, service: Service) -> Backlog:
    """Count the writes since the service was last completed, and since its last plan."""
    writes = writes_of(timeline)
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


def failures_of(timeline: Timeline, now: datetime) -> tuple[WriteFailure, ...]:
    """Return the writes with a heartbeat that has run out."""
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


def listing_of(folder: str, storage: Storage) -> Sequence[FileEntry]:
    """Return the files of a folder. There are none if there is no folder."""
    try:
        return storage.listing(folder)
    except FileNotFoundError:
        return ()


def keep_until(view: TableView, folder: str, storage: Storage, now: datetime) -> datetime | None:
    """Return until when the token of a folder may be trusted without another observation."""
    changed = storage.changed_at(folder)
    if view.faults or (changed is not None and now - changed < _TICK):
        return now
    if any(write.guarded_until is None for write in view.writers.in_flight):
        return now
    return min((i.guarded_until for i in view.timeline.instants if i.guarded_until is not None), default=None)
