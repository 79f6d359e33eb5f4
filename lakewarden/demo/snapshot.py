"""What there is to see at one moment of the demo, and whoever looks."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakewarden.demo.daemon import Daemon, RefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.reader import Query, read_queries
from lakewarden.demo.writers.record import Ending, Record, merged, read_record
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.http.schemas import RunBody, TableBody

_COUNT_EVERY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """A number that goes up and down, and the most it has been. `words` say what is counted."""

    words: str = ""
    now: int = 0
    peak: int = 0

    def moved_to(self, value: int) -> Gauge:
        """Return the gauge at a new value."""
        return replace(self, now=value, peak=max(self.peak, value))


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoState:
    """One moment. `act` says what the demo is at; `table` is None until the daemon knows it; `counts` has what the
    piece counts, by its name in the report.
    """

    act: str
    table: TableBody | None = None
    runs: tuple[RunBody, ...] = ()
    hooks: int = 0
    record: Record = field(default_factory=Record)
    queries: tuple[Query, ...] = ()
    counts: Mapping[str, Gauge] = field(default_factory=dict)

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


class Observer:
    """Looks at the stage from outside: the daemon's API and metrics, the records, the files in the folder."""

    def __init__(self, stage: Environment) -> None:
        self._stage = stage
        self._daemon: Daemon | None = None
        self._scene = DemoState(
            act="", counts={name: Gauge(words=words) for name, words in stage.piece.counted.items()}
        )
        self._counted_at = 0.0

    def meet(self, daemon: Daemon) -> None:
        """From now on, ask the daemon, too."""
        self._daemon = daemon

    def look(self, act: str) -> DemoState:
        """Return what there is to see; what the daemon does not tell in time stays as it was."""
        queries = read_queries(self._stage.queries)
        counts = dict(self._scene.counts)
        for counted in (*(query.counted for query in queries[len(self._scene.queries) :]), self._stored()):
            counts |= {name: counts[name].moved_to(value) for name, value in counted.items()}
        scene = replace(
            self._scene,
            act=act,
            record=merged(map(read_record, self._stage.records)),
            queries=tuple(queries),
            counts=counts,
        )
        self._scene = self._as_told(scene)
        return self._scene

    def _stored(self) -> Mapping[str, int]:
        """Return what is counted on the disk, where it is time to count it again."""
        if time.monotonic() - self._counted_at < _COUNT_EVERY_SECONDS:
            return {}
        self._counted_at = time.monotonic()
        return self._stage.piece.count_stored(self._stage.directory)

    def _as_told(self, scene: DemoState) -> DemoState:
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
