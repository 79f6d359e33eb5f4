"""What there is to see at one moment of the demo, and whoever looks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from lakewarden.executors.demo.record import Ending, Record, read_record
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.demo.daemon import Daemon, RefusedError
from lakewarden.service.demo.files import count_file_versions
from lakewarden.service.demo.reader import Query, read_queries
from lakewarden.service.demo.stage import Stage
from lakewarden.service.http.schemas import RunBody, TableBody

_COUNT_EVERY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """A number that goes up and down, and the most it has been."""

    now: int = 0
    peak: int = 0

    def moved_to(self, value: int) -> Gauge:
        """Return the gauge at a new value."""
        return Gauge(now=value, peak=max(self.peak, value))


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """One moment. `act` says what the demo is at; `table` is None until the daemon knows it."""

    act: str
    table: TableBody | None = None
    runs: tuple[RunBody, ...] = ()
    hooks: int = 0
    record: Record = field(default_factory=Record)
    queries: tuple[Query, ...] = ()
    log_files: Gauge = field(default_factory=Gauge)
    file_versions: Gauge = field(default_factory=Gauge)

    @property
    def commits(self) -> int:
        """How many commits of the writer were acknowledged."""
        return len(self.record.acknowledged())

    @property
    def failed_commits(self) -> int:
        """How many commits of the writer came back with an error."""
        return sum(batch.ending is Ending.FAILED for batch in self.record.batches)

    @property
    def failed_queries(self) -> int:
        """How many queries failed, or found rows that no commit had left."""
        return sum(bool(query.failure) for query in self.queries)


class Spectator:
    """Looks at the stage from outside: the daemon's API and metrics, the two records, the files in the folder."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._daemon: Daemon | None = None
        self._scene = Scene(act="")
        self._counted_at = 0.0

    def meet(self, daemon: Daemon) -> None:
        """From now on, ask the daemon, too."""
        self._daemon = daemon

    def look(self, act: str) -> Scene:
        """Return what there is to see; what the daemon does not tell in time stays as it was."""
        scene = replace(self._scene, act=act, record=read_record(self._stage.record))
        queries = read_queries(self._stage.queries)
        merged = [query.log_files for query in queries]
        scene = replace(
            scene,
            queries=tuple(queries),
            log_files=Gauge(now=merged[-1] if merged else 0, peak=max(merged, default=0)),
        )
        if time.monotonic() - self._counted_at >= _COUNT_EVERY_SECONDS:
            self._counted_at = time.monotonic()
            scene = replace(scene, file_versions=scene.file_versions.moved_to(count_file_versions(self._stage.table)))
        self._scene = self._as_told(scene)
        return self._scene

    def _as_told(self, scene: Scene) -> Scene:
        if self._daemon is None:
            return scene
        try:
            return replace(
                scene,
                table=self._daemon.table(),
                runs=tuple(self._daemon.runs()),
                hooks=self._daemon.hooks_accepted(),
            )
        except (TemporaryError, RefusedError):
            return scene
