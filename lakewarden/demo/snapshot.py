"""The state of the demo at one moment, and its observer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lakewarden.demo.daemon import DaemonProcess, RequestRefusedError
from lakewarden.demo.environment import Environment
from lakewarden.demo.reader import Query, read_queries
from lakewarden.demo.writers.orders import Ending, Record, merged, read_record
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.service.http.schemas import RunBody, TableBody

_COUNT_EVERY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Gauge:
    """A number that rises and falls, and its maximum. `words` say what is counted."""

    words: str = ""
    now: int = 0
    peak: int = 0

    def moved_to(self, value: int) -> Gauge:
        """Return the gauge with a new value."""
        return replace(self, now=value, peak=max(self.peak, value))


@dataclass(frozen=True, kw_only=True, slots=True)
class DemoState:
    """One moment. `phase` is the current step of the demo. `table` is None until the daemon knows the table. `counts`
    are the counts of the format, by their names in the report. `page` is the address of the table's page.
    """

    phase: str
    table: TableBody | None = None
    page: str | None = None
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


class DemoObserver:
    """Observes the demo from outside: the daemon's API and metrics, the records, the files in the folder."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._daemon: DaemonProcess | None = None
        self._state = DemoState(
            phase="", counts={name: Gauge(words=words) for name, words in environment.format_demo.counted.items()}
        )
        self._counted_at = 0.0

    def meet(self, daemon: DaemonProcess) -> None:
        """From now on, ask the daemon, too."""
        self._daemon = daemon

    def look(self, phase: str) -> DemoState:
        """Return the state. If the daemon does not answer in time, its part stays as it was."""
        queries = read_queries(self._environment.queries)
        counts = dict(self._state.counts)
        for counted in (*(query.counted for query in queries[len(self._state.queries) :]), self._stored()):
            counts |= {name: counts[name].moved_to(value) for name, value in counted.items()}
        state = replace(
            self._state,
            phase=phase,
            record=merged(map(read_record, self._environment.records)),
            queries=tuple(queries),
            counts=counts,
        )
        self._state = self._as_told(state)
        return self._state

    def _stored(self) -> Mapping[str, int]:
        """Return the counts on the disk, if it is time to count again."""
        if time.monotonic() - self._counted_at < _COUNT_EVERY_SECONDS:
            return {}
        self._counted_at = time.monotonic()
        return self._environment.format_demo.count_stored(self._environment.directory)

    def _as_told(self, state: DemoState) -> DemoState:
        if self._daemon is None:
            return state
        try:
            return replace(
                state,
                table=self._daemon.table(),
                page=self._daemon.page,
                runs=tuple(self._daemon.runs()),
                hooks=self._daemon.hooks_accepted(),
            )
        except (TemporaryError, RequestRefusedError):
            return state
