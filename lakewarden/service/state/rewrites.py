"""Rewrites of all files: from the request of an operator until a plan finds no file that is left.

They are in the store, so a request goes on after a restart. Many runs may be needed, because each one is bounded.
"""

from __future__ import annotations

from collections.abc import Collection

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.rows import RewriteRow
from lakewarden.service.store.port import Store


class Rewrites:
    """Keeps at most one request for each service of a table. Only the control thread changes it."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[tuple[TableId, Service], RewriteRow] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have been asked for. Raises TemporaryError."""
        self._rows = {(row.table, row.service): row for row in self._store.rewrites()}

    def of(self, table: Table, service: Service, view: TableView) -> RewriteRow | None:
        """Return the request for a service, or None. A request for a former table with this id does not count."""
        row = self._rows.get((table.id, service))
        return None if row is None or row.identity != str(view.identity) else row

    def asked(self, table: Table, service: Service, view: TableView, mark: str, *, by: str) -> RewriteRow:
        """Return the request under way, or one that would begin now."""
        return self.of(table, service, view) or RewriteRow(
            table=table.id,
            service=service,
            identity=str(view.identity),
            mark=mark,
            asked_by=by,
            asked_at=self._clock.now(),
        )

    def begin(self, row: RewriteRow) -> None:
        """Keep a request until it ends."""
        if self._rows.get((row.table, row.service)) != row:
            self._store.keep_rewrite(row)
            self._rows[row.table, row.service] = row

    def has(self, table: TableId, service: Service) -> bool:
        """Whether there is a request, be it for a former table with this id."""
        return (table, service) in self._rows

    def end(self, table: TableId, service: Service) -> bool:
        """Forget a request. Return whether there was one."""
        if not self.has(table, service):
            return False
        self._store.forget_rewrite(table, service)
        del self._rows[table, service]
        return True

    def under_way(self, table: Table, view: TableView) -> dict[Service, RewriteRow]:
        """Return the requests for a table, by service. Any thread may call it."""
        if not self._rows:
            return {}
        found = {service: self.of(table, service, view) for service in table.policies}
        return {service: row for service, row in found.items() if row is not None}

    def tables(self) -> Collection[TableId]:
        """Return the tables with requests. Any thread may call it."""
        return {table for table, _ in list(self._rows)}


def in_words(row: RewriteRow) -> str:
    """Return that a rewrite was asked for, by which operator and when."""
    return f"a rewrite of all files was asked for by {row.asked_by} at {row.asked_at:%Y-%m-%d %H:%M} UTC"
