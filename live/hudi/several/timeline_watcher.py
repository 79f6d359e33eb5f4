"""What an onlooker sees come and go on a timeline: names of files, and when. Nothing of Lakewarden reads it for us."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from live.hudi.travel import time_of

_NAME = re.compile(r"(?P<instant>\d{17})(?:_(?P<completed>\d{17}))?\.(?P<action>[a-z]+)(?:\.(?P<state>[a-z]+))?")
_EVERY_SECONDS = 0.1
_WRITES = frozenset({"commit", "deltacommit"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sighting:
    """One file of a timeline: when it was seen first, and last."""

    name: str
    first: datetime
    last: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One instant. `action` is that of its plan (`compaction`, not `commit`), and of the first sight of it.

    It was pending from `begun` to `ended`; `completed` is the completion time in its name, None where it never
    completed. Hudi's times are wall-clock times in UTC, to the millisecond.
    """

    instant: str
    action: str
    begun: datetime
    ended: datetime
    completed: datetime | None = None

    @property
    def written(self) -> bool:
        """Whether a writer began it, where all table services are ours."""
        return self.action in _WRITES


class TimelineWatcher:
    """Looks at a table's timeline all the time, from its start to its end. The table may come later."""

    def __init__(self, table: Path) -> None:
        self._folder = table / ".hoodie" / "timeline"
        self._seen: dict[str, Sighting] = {}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, name="timeline-watcher", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()

    def seen(self) -> tuple[Seen, ...]:
        """Return the instants that were seen until now, in their order."""
        return instants(tuple(self._seen.values()))

    def left(self) -> list[str]:
        """Return the instants that are pending now, each with its action."""
        now = datetime.now(UTC)
        names = (path.name for path in self._folder.iterdir())
        found = instants(Sighting(name=name, first=now, last=now) for name in names)
        return [f"{one.instant} {one.action}" for one in found if one.completed is None]

    def _look_on(self) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            try:
                names = [path.name for path in self._folder.iterdir()]
            except FileNotFoundError:
                continue
            now = datetime.now(UTC)
            for name in names:
                known = self._seen.get(name)
                self._seen[name] = Sighting(name=name, first=now if known is None else known.first, last=now)


def instants(sightings: Iterable[Sighting]) -> tuple[Seen, ...]:
    """Return the instants that the names are of, in their order. A savepoint shares the instant of its commit, and is
    left out. Pure.
    """
    by_instant: dict[str, list[tuple[re.Match[str], Sighting]]] = {}
    for sighting in sightings:
        found = _NAME.fullmatch(sighting.name)
        if found is not None and found["action"] != "savepoint":
            by_instant.setdefault(found["instant"], []).append((found, sighting))
    return tuple(_seen(instant, files) for instant, files in sorted(by_instant.items()))


def unmerged_peak(seen: Iterable[Seen]) -> int:
    """Return the most writes that were completed at one time and waited for a compaction to be complete. Pure.

    A write waits for the first compaction that was planned after it had completed.
    """
    known = [one for one in seen if one.completed is not None]
    writes = [one.completed for one in known if one.written and one.completed is not None]
    compactions = sorted((time_of(c.instant), c.completed) for c in known if c.action == "compaction" and c.completed)
    waits = []
    for completed in writes:
        merged = next((done for planned, done in compactions if planned > completed), None)
        waits.append((completed, merged or datetime.max.replace(tzinfo=UTC)))
    return max((sum(begun <= at < ended for begun, ended in waits) for at, _ in waits), default=0)


def _seen(instant: str, files: list[tuple[re.Match[str], Sighting]]) -> Seen:
    completed = next((time_of(found["completed"]) for found, _ in files if found["completed"]), None)
    return Seen(
        instant=instant,
        action=_planned_action([found for found, _ in files]),
        begun=time_of(instant),
        ended=completed or max(sighting.last for _, sighting in files),
        completed=completed,
    )


def _planned_action(files: list[re.Match[str]]) -> str:
    """Return the action that the plan names. `<instant>.inflight` is a commit's (Hudi's `InstantFileNameGenerator`)."""
    first = min(files, key=lambda found: (found["completed"] is not None, found["state"] != "requested"))
    return "commit" if first["action"] == "inflight" else str(first["action"])
