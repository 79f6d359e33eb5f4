"""A fake table for its writers and services. It makes and completes instants, each step with one rename."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import RunId, State
from tests.support.doubles.fake.layout import (
    ARCHIVE,
    FIRST_VERSION,
    HEARTBEATS,
    PROPERTIES,
    SCRATCH,
    SEQUENCE,
    TIMELINE,
    FakeAction,
    TimelineFile,
    parse,
)


class FakeTable:
    """One fake table in a folder. Several processes may use the same table. Its instants are times of `clock`.

    Every method that changes the table is atomic: a reader sees all of the change or nothing. A step that the timeline
    does not allow raises PermanentError. Examples are to complete an instant twice, or one that was never begun.
    """

    def __init__(self, folder: Path, *, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or SystemClock()

    @classmethod
    def create(cls, folder: Path, *, name: str = "fake", clock: Clock | None = None) -> FakeTable:
        """Make an empty table in a folder that does not exist yet, or is empty."""
        for part in (TIMELINE, ARCHIVE, HEARTBEATS, SEQUENCE, SCRATCH):
            (folder / part).mkdir(parents=True)
        table = cls(folder, clock=clock)
        table._put(folder / PROPERTIES, {"name": name, "created": uuid.uuid4().hex})
        return table

    def begin_write(self) -> str:
        """Begin a write, with a heartbeat, and return its instant."""
        time = self._next_time()
        self.beat(time)
        self._add(time, FakeAction.WRITE, State.REQUESTED)
        self._add(time, FakeAction.WRITE, State.INFLIGHT)
        return time

    def commit_write(self, time: str, *, rows: int = 1) -> None:
        """Complete a write of `rows` rows in one log file."""
        self._complete(time, FakeAction.WRITE, {"rows": rows})

    def write(self, *, rows: int = 1) -> str:
        """Write and commit `rows` rows, and return the instant."""
        time = self.begin_write()
        self.commit_write(time, rows=rows)
        return time

    def plan_compaction(self, *, run: RunId | None = None) -> str | None:
        """Plan to merge the log files that no other plan merges. Return the instant, or None if there are no such
        files.
        """
        return self._plan(FakeAction.COMPACTION, sorted(self._written() - self._named_by(FakeAction.COMPACTION)), run)

    def plan_clean(self, *, run: RunId | None = None, versions_retained: int = 1) -> str | None:
        """Plan to delete all file versions but the newest, and but those that a pending clustering rewrites.

        Return the instant, or None if there is nothing to delete.
        """
        versions = sorted(self._made() - self._named_by(FakeAction.CLEAN))
        needed = self._named_by(FakeAction.CLUSTERING) - self._named_by(FakeAction.CLUSTERING, completed=True)
        return self._plan(FakeAction.CLEAN, [old for old in versions[:-versions_retained] if old not in needed], run)

    def plan_clustering(self, *, run: RunId | None = None) -> str | None:
        """Plan to rewrite the newest file version. Return the instant, or None if there is only the first version."""
        newest = max(self._made())
        return None if newest == FIRST_VERSION else self._plan(FakeAction.CLUSTERING, [newest], run)

    def archivable(self, *, instants_retained: int) -> list[str]:
        """Return the completed instants that may leave the timeline, the oldest first. All older instants are
        completed.
        """
        states: dict[str, State] = {}
        for file in self._on_timeline():
            states[file.time] = max(file.state, states.get(file.time, file.state))
        oldest = sorted(states)[: max(0, len(states) - instants_retained)]
        first_pending = next((time for time in oldest if states[time] is not State.COMPLETED), None)
        return [time for time in oldest if first_pending is None or time < first_pending]

    def archive(self, times: Iterable[str]) -> None:
        """Move instants from the timeline to the archive."""
        archived = set(times)
        for file in self._on_timeline():
            if file.time in archived:
                (self.folder / TIMELINE / file.name).rename(self.folder / ARCHIVE / file.name)

    def files_named(self, time: str) -> list[str]:
        """Return the files that a pending plan names."""
        plan = TimelineFile(time=time, action=self._pending(time).action, state=State.REQUESTED)
        named: list[str] = self._content(plan)["files"]
        return named

    def start(self, time: str) -> None:
        """Begin a plan: put it in flight, unless it is already, and start its heartbeat."""
        file = self._pending(time)
        self.beat(time)
        if file.state is State.REQUESTED:
            self._add(time, file.action, State.INFLIGHT)

    def complete(self, time: str) -> None:
        """Complete a plan that was begun."""
        self._complete(time, self._pending(time).action, {})

    def withdraw(self, time: str) -> None:
        """Remove a pending instant from the timeline: a plan that is given up, or a write that is rolled back."""
        file = self._pending(time)
        for state in (State.INFLIGHT, State.REQUESTED):
            self._path(TimelineFile(time=time, action=file.action, state=state)).unlink(missing_ok=True)
        self.fall_silent(time)

    def beat(self, time: str) -> None:
        """Renew the heartbeat of an instant."""
        heart = self.folder / HEARTBEATS / time
        heart.touch()
        now = self._clock.now().timestamp()
        os.utime(heart, (now, now))

    def fall_silent(self, time: str) -> None:
        """Remove the heartbeat of an instant."""
        (self.folder / HEARTBEATS / time).unlink(missing_ok=True)

    @property
    def rows(self) -> int:
        """The rows of all completed writes."""
        return sum(self._content(file)["rows"] for file in self._files(FakeAction.WRITE, State.COMPLETED))

    @property
    def log_files(self) -> int:
        """The log files that no completed compaction has merged."""
        return len(self._written() - self._named_by(FakeAction.COMPACTION, completed=True))

    @property
    def file_versions(self) -> int:
        """The file versions that no completed clean has deleted."""
        return len(self._made() - self._named_by(FakeAction.CLEAN, completed=True))

    def _written(self) -> set[str]:
        return {file.time for file in self._files(FakeAction.WRITE, State.COMPLETED)}

    def _made(self) -> set[str]:
        rewrites = (FakeAction.COMPACTION, FakeAction.CLUSTERING)
        return {FIRST_VERSION} | {file.time for action in rewrites for file in self._files(action, State.COMPLETED)}

    def _named_by(self, action: FakeAction, *, completed: bool = False) -> set[str]:
        """Return the files that the plans of a service name: of all plans, or of the completed ones."""
        done = {file.time for file in self._files(action, State.COMPLETED)}
        plans = [file for file in self._files(action, State.REQUESTED) if not completed or file.time in done]
        return {name for plan in plans for name in self._content(plan)["files"]}

    def _plan(self, action: FakeAction, files: Iterable[str], run: RunId | None) -> str | None:
        named = list(files)
        if not named:
            return None
        time = self._next_time()
        self._add(time, action, State.REQUESTED, {"files": named, **({} if run is None else {"run": run})})
        return time

    def _complete(self, time: str, action: FakeAction, content: Mapping[str, Any]) -> None:
        if self._pending(time).state is not State.INFLIGHT:
            raise PermanentError(f"instant {time} was never begun")
        self._add(time, action, State.COMPLETED, content)
        self.fall_silent(time)

    def _pending(self, time: str) -> TimelineFile:
        found = max((f for f in self._files() if f.time == time), key=lambda f: f.state, default=None)
        if found is None or found.state is State.COMPLETED:
            raise PermanentError(f"instant {time} is {'unknown' if found is None else 'completed'}")
        return found

    def _files(self, action: FakeAction | None = None, state: State | None = None) -> list[TimelineFile]:
        found = self._on_timeline() + self._in(ARCHIVE)
        return [f for f in found if action in (None, f.action) and state in (None, f.state)]

    def _on_timeline(self) -> list[TimelineFile]:
        return self._in(TIMELINE)

    def _in(self, folder: str) -> list[TimelineFile]:
        found = (parse(name) for name in sorted(os.listdir(self.folder / folder)))  # noqa: PTH208 - names only
        return [file for file in found if file is not None]

    def _path(self, file: TimelineFile) -> Path:
        return self.folder / TIMELINE / file.name

    def _content(self, file: TimelineFile) -> dict[str, Any]:
        path = self._path(file)
        content: dict[str, Any] = json.loads(
            (path if path.exists() else self.folder / ARCHIVE / file.name).read_bytes()
        )
        return content

    def _next_time(self) -> str:
        """Take the next instant. If several callers create its file in `sequence`, only one succeeds."""
        folder = self.folder / SEQUENCE
        while True:
            time = f"{max((int(p.name) for p in folder.iterdir()), default=0) + 1:08d}"
            try:
                (folder / time).touch(exist_ok=False)
            except FileExistsError:
                continue
            return time

    def _add(self, time: str, action: FakeAction, state: State, content: Mapping[str, Any] | None = None) -> None:
        path = self._path(TimelineFile(time=time, action=action, state=state))
        try:
            self._put(path, {"at": self._clock.now().isoformat(), **(content or {})})
        except FileExistsError as error:
            raise PermanentError(f"instant {time} is {state.name.lower()} already") from error

    def _put(self, path: Path, content: Mapping[str, Any]) -> None:
        """Create a whole file at `path` atomically. Raises FileExistsError if there is one."""
        scratch = self.folder / SCRATCH / uuid.uuid4().hex
        scratch.write_text(json.dumps(content))
        try:
            path.hardlink_to(scratch)
        finally:
            scratch.unlink()
