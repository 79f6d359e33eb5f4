"""Signs of writers: that a hook of a table has arrived, and that a write of it had a heartbeat.

They are in the store, because a writer may commit only once a day.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.rows import WriterSignsRow
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)


class WriterSigns:
    """Keeps the first sign of each kind. Only the control thread calls it, except `heard`."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[TableId, WriterSignsRow] = {}
        self._heard: deque[TableId] = deque(maxlen=10_000)
        self._unsaved: set[TableId] = set()
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have seen. Raises TemporaryError."""
        kept = {row.table: row for row in self._store.writer_signs()}
        self._rows = {**kept, **{table: self._rows[table] for table in self._unsaved}}
        self._save()

    def heard(self, table: TableId) -> None:
        """Note that a hook of a table has arrived. Any thread may call it. The next `refresh` or `seen` keeps it."""
        row = self._rows.get(table)
        if row is None or row.hook_at is None:
            self._heard.append(table)

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from an observation of a table, and keep the hooks that were heard."""
        now = self._clock.now()
        while self._heard:
            name = self._heard.popleft()
            row = self.of(name)
            if row.hook_at is None:
                self._keep(replace(row, hook_at=now))
        row = self.of(table.id)
        writes = view.timeline.writes_in_flight()
        if row.beat_at is None and any(one.last_beat is not None for one in writes):
            self._keep(replace(row, beat_at=now))

    def of(self, table: TableId) -> WriterSignsRow:
        """Return the signs of a table. Any thread may call it."""
        return self._rows.get(table) or WriterSignsRow(table=table)

    def _keep(self, row: WriterSignsRow) -> None:
        self._rows[row.table] = row
        self._unsaved.add(row.table)
        try:
            self._save()
        except TemporaryError as error:
            log.warning("store_unavailable", error=str(error))

    def _save(self) -> None:
        for table in sorted(self._unsaved):
            self._store.keep_writer_signs(self._rows[table])
            self._unsaved.discard(table)
