"""The failures of the writers of each table, as a counter with a bounded number of series."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import product

from prometheus_client.core import CounterMetricFamily, Metric

from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.events import Listener
from lakewarden.service.reporting.metrics.families import OTHER
from lakewarden.service.rules.writer_failures import Blamed


class WriterFailures(Listener):
    """Counts failures. A counter must never fall, so a table keeps the series that it was first counted in. It takes
    that series with it when it is registered no longer.

    Up to `limit` tables, each table has its series from the start. With more tables, the first `limit` tables with a
    failure have a series of their own, and the failures of the others are counted together.
    """

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._counts: Counter[tuple[str, bool]] = Counter()
        self._own: set[str] = set()
        self._guard = threading.Lock()

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Count a failure."""
        with self._guard:
            if len(self._own) < self._limit:
                self._own.add(table.id)
            name = table.id if table.id in self._own else OTHER
            self._counts[name, blamed.run is not None] += 1

    def collected(self, tables: Collection[TableId]) -> Iterator[Metric]:
        """Return the counter, with a series for each of `tables` if they are few enough."""
        with self._guard:
            gone = self._own.difference(tables)
            self._own -= gone
            self._counts = Counter({key: count for key, count in self._counts.items() if key[0] not in gone})
            named: Iterable[str] = {*tables, *self._own} if len(tables) <= self._limit else {*self._own, OTHER}
            counts = dict(self._counts)
        metric = CounterMetricFamily(
            "lakewarden_writer_failures",
            "Writes that failed. `near_us` is true if one met a plan or a commit of Lakewarden.",
            labels=("table", "near_us"),
        )
        names = sorted({*named, *(name for name, _ in counts)})
        for name, near_us in product(names, (True, False)):
            metric.add_metric([printable(name), str(near_us).lower()], counts.get((name, near_us), 0))
        yield metric
