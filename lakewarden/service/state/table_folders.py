"""The folders of tables, by which it is known that two registered tables are one.

A configuration with two paths to one folder is refused. The folder of a table that its catalog names is known only from
an observation. It is in the store, so that every replica knows it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from types import MappingProxyType
from typing import TYPE_CHECKING

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import KeptMore, TableView
from lakewarden.planners.storage.locations import by_place, is_in_catalog
from lakewarden.service.model.rows import FolderRow, WriterSignsRow
from lakewarden.service.rules.proof import ALONE_FOR
from lakewarden.service.rules.registering import registered_twice
from lakewarden.service.state.table_registry import TableRegistry

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store


class TableFolders:
    """Knows which registered tables of one format lie in one folder. Only the control thread calls it."""

    def __init__(self, *, store: Store, tables: TableRegistry) -> None:
        self._store = store
        self._tables = tables
        self._edition: Mapping[str, TableId] = {}
        self._by_path: Mapping[str, TableId] = {}
        self._rows: dict[TableId, FolderRow] = {}
        self._named: dict[str, set[TableId]] = {}
        self._looked_at: set[TableId] = set()
        self._answers: Mapping[TableId, Blocked] = {}
        self._has_news = False
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have seen. Raises TemporaryError."""
        self._take(self._store.rows(FolderRow))

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from an observation, before anything is decided on the table.

        A new folder is stored before the folders of the others are read. So of two replicas that look at the same time
        at least one finds the other. Raises TemporaryError if the store does not answer.
        """
        if view.folder:
            row = FolderRow(table=table.id, location=table.location, folder=_digest(view.folder))
            if self._rows.get(table.id) != row:
                self._store.keep_row(row)
                self._take([*self._store.tables_in(row.folder), row])
        self._looked_at.add(table.id)

    def missed(self, table: TableId) -> None:
        """Note that a table could not be observed."""
        self._looked_at.add(table)

    def unseen(self, tables: Iterable[TableId]) -> frozenset[str]:
        """Return the formats of those tables in catalogs that were never looked at. Any of them may lie in the folder
        of another table of its format, so no run of the format begins before.
        """
        candidates = (self._tables[table] for table in tables if table not in self._looked_at and table in self._tables)
        return frozenset(
            table.format for table in candidates if is_in_catalog(table.location) and self._row_of(table) is None
        )

    def blocked(self, table: Table) -> Blocked | None:
        """Return why a table must not be served: its folder is registered under another name, too."""
        others = self._others(table)
        return registered_twice(others) if others else None

    def changed(self) -> Collection[TableId]:
        """Return the tables with another answer of `blocked` than at the last question."""
        if not self._has_news and self._edition is self._tables.locations:
            return ()
        before, self._has_news = self._answers, False
        self._answers = {
            table.id: blocker for table in self._tables.values() if (blocker := self.blocked(table)) is not None
        }
        return [key for key in before.keys() | self._answers.keys() if before.get(key) != self._answers.get(key)]

    def _others(self, table: Table) -> Sequence[TableId]:
        if self._edition is not self._tables.locations:
            self._edition, self._has_news = self._tables.locations, True
            self._by_path = {_digest(entry.location): entry.id for entry in self._tables.values()}
        row = self._row_of(table)
        folder = _digest(table.location) if row is None else row.folder
        here = {*self._named.get(folder, ()), self._by_path.get(folder, table.id)} - {table.id}
        others = (self._tables[id_] for id_ in here if id_ in self._tables)
        return sorted(
            other.id
            for other in others
            if other.format == table.format and (not is_in_catalog(other.location) or self._row_of(other) is not None)
        )

    def _row_of(self, table: Table) -> FolderRow | None:
        """Return the folder of a table under the name that it is registered by now."""
        row = self._rows.get(table.id)
        return None if row is None or row.location != table.location else row

    def _take(self, rows: Iterable[FolderRow]) -> None:
        for row in rows:
            before = self._rows.get(row.table)
            if before == row:
                continue
            if before is not None:
                self._named[before.folder].discard(row.table)
            self._rows[row.table] = row
            self._named.setdefault(row.folder, set()).add(row.table)
            self._has_news = True


def _digest(folder: str) -> str:
    return blake2b(by_place(folder).encode(errors="surrogatepass"), digest_size=16).hexdigest()


# Services on the timeline of a table that a program other than Lakewarden has completed.
#
# A cron job that still compacts, a writer that cleans by itself, or an optimizer of a vendor would do the work of a
# policy a second time.

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
            instant
            for instant in view.timeline.instants
            if instant.stands_for in WATCHED
            and instant.stands_for in table.policies
            and not instant.pending
            and instant.author is None
            and (instant.completed_at or instant.requested_at) > since
        ]
        times = {instant.time for instant in self._others.get(table.id, ())} | self._ours.get(table.id, frozenset())
        if any(instant.time not in times for instant in unsigned):
            try:
                self._ours[table.id] = self._instants_of(view, {Service(instant.stands_for) for instant in unsigned})
            except TemporaryError:
                return
        ours = self._ours.get(table.id, frozenset())
        others = tuple(instant for instant in unsigned if instant.time not in ours)
        if others:
            self._others[table.id] = others
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

    def _instants_of(self, view: TableView, services: set[Service]) -> frozenset[str]:
        identity = str(view.identity)
        return frozenset().union(
            *(self._store.instants(identity=identity, service=service) for service in sorted(services))
        )


# Signs of writers: that a hook of a table has arrived, and that a write of it had a heartbeat.
#
# They are in the store, because a writer may commit only once a day.

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
        kept = {row.table: row for row in self._store.rows(WriterSignsRow)}
        self._rows = {**kept, **{table: self._rows[table] for table in self._unsaved}}
        self.save()

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
        if row.beat_at is None and any(write.last_beat is not None for write in writes):
            self._keep(replace(row, beat_at=now))

    def of(self, table: TableId) -> WriterSignsRow:
        """Return the signs of a table. Any thread may call it."""
        return self._rows.get(table) or WriterSignsRow(table=table)

    def _keep(self, row: WriterSignsRow) -> None:
        self._rows[row.table] = row
        self._unsaved.add(row.table)
        try:
            self.save()
        except TemporaryError as error:
            log.warning("store_unavailable", error=str(error))

    def save(self) -> None:
        """Write the rows that the store could not keep before. Raises TemporaryError."""
        for table in sorted(self._unsaved):
            self._store.keep_row(self._rows[table])
            self._unsaved.discard(table)


# What the writers of a table kept and the policies do not keep. After a clean of ours it no longer counts.

_Key = tuple[str, Service, str | None]
"""The identity of a table, a service, and the instant of it that kept more."""

_NOTHING: Mapping[Service, KeptMore] = MappingProxyType({})


class KeptByOthers:
    """Knows it by table. Only the control thread calls `seen`. Any thread may read.

    The store is asked once for each instant, because a clean may not say its author.
    """

    def __init__(self, *, store: Store) -> None:
        self._store = store
        self._ours: dict[TableId, Mapping[_Key, bool]] = {}
        self._kept: dict[TableId, Mapping[Service, KeptMore]] = {}

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from an observation. If the store does not answer, the next one is learned from."""
        if not view.kept_more:
            self.forget(table.id)
            return
        before, ours = self._ours.get(table.id, {}), dict[_Key, bool]()
        for service, more in view.kept_more.items():
            key = (str(view.identity), service, more.instant)
            try:
                ours[key] = before[key] if key in before else self._is_ours(*key)
            except TemporaryError:
                return
        self._ours[table.id] = ours
        self._kept[table.id] = {
            service: more
            for service, more in view.kept_more.items()
            if not ours[str(view.identity), service, more.instant]
        }

    def forget(self, table: TableId) -> None:
        """Forget what was seen of a table."""
        self._kept.pop(table, None)
        self._ours.pop(table, None)

    def of(self, table: TableId) -> Mapping[Service, KeptMore]:
        """Return what was kept before and would not be kept by each service of a table."""
        return self._kept.get(table, _NOTHING)

    def _is_ours(self, identity: str, service: Service, instant: str | None) -> bool:
        """Whether Lakewarden has cleaned since: then the retention of the policy was approved, or allowed."""
        ours = self._store.instants(identity=identity, service=service)
        return bool(ours) if instant is None else instant in ours
