"""Services on the timeline of a table that a program other than Lakewarden has completed.

A cron job that still compacts, a writer that cleans by itself, or an optimizer of a vendor would do the work of a
policy a second time.
"""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.rules.proof import ALONE_FOR
from lakewarden.service.store.port import Store

WATCHED = frozenset({Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING, Service.CLEAN})
"""The services that writers and jobs carry out by themselves, and that are on the timeline."""


class ForeignServices:
    """Knows the services of others within a day. Only the control thread calls `seen`. Any thread may read.

    A plan may not say its author. So an unsigned service is asked for in the store once.
    """

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._ours: dict[TableId, frozenset[str]] = {}
        self._others: dict[TableId, tuple[Instant, ...]] = {}

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from an observation. If the store does not answer, the next one is learned from."""
        since = self._clock.now() - ALONE_FOR
        unsigned = [
            one
            for one in view.timeline.instants
            if one.stands_for in WATCHED
            and one.stands_for in table.policies
            and not one.pending
            and one.author is None
            and (one.completed_at or one.requested_at) > since
        ]
        known = {one.time for one in self._others.get(table.id, ())} | self._ours.get(table.id, frozenset())
        if any(one.time not in known for one in unsigned):
            try:
                self._ours[table.id] = self._asked(view, {Service(one.stands_for) for one in unsigned})
            except TemporaryError:
                return
        ours = self._ours.get(table.id, frozenset())
        found = tuple(one for one in unsigned if one.time not in ours)
        if found:
            self._others[table.id] = found
        else:
            self._others.pop(table.id, None)
            if not unsigned:
                self._ours.pop(table.id, None)

    def forget(self, table: TableId) -> None:
        """Forget what was seen of a table."""
        self._ours.pop(table, None)
        self._others.pop(table, None)

    def of(self, table: TableId) -> tuple[Instant, ...]:
        """Return the services that others have completed on a table within a day."""
        return self._others.get(table, ())

    def tables(self) -> Collection[TableId]:
        """Return the tables with such services."""
        return list(self._others)

    def _asked(self, view: TableView, services: set[Service]) -> frozenset[str]:
        identity = str(view.identity)
        return frozenset().union(
            *(self._store.instants(identity=identity, service=service) for service in sorted(services))
        )
