"""Looks at Paimon tables, for tests."""

from __future__ import annotations

from datetime import datetime

from lakewarden.planners.formats.paimon import PaimonFormat
from lakewarden.planners.formats.paimon.backlog.manifests_read import Memo
from lakewarden.planners.formats.paimon.backlog.needs import NeedFacts
from lakewarden.planners.formats.paimon.observing import Look
from lakewarden.planners.formats.paimon.observing import look as looked
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.paimon_table import PaimonTable


class CountingStorage(LocalStorage):
    """Remembers what is asked of it."""

    def __init__(self) -> None:
        """Nothing was asked yet."""
        self.read_files: list[str] = []
        self.requests: list[str] = []

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        """Remember the file."""
        self.read_files.append(location.rpartition("/")[2])
        self.requests.append(location)
        return super().read(location, limit=limit)

    def version(self, location: str) -> str:
        """Remember the file."""
        self.requests.append(location)
        return super().version(location)

    @property
    def manifests(self) -> list[str]:
        """Return the manifests that were read."""
        lists = "manifest-list-"
        return [name for name in self.read_files if name.startswith("manifest-") and not name.startswith(lists)]


def registered(table: PaimonTable) -> Table:
    """Return the table as it would be registered."""
    return Table(id=TableId("trips"), format="paimon", location=str(table.folder))


def observe(
    table: PaimonTable,
    previous: Observation | None = None,
    *,
    storage: Storage | None = None,
    by: PaimonFormat | None = None,
    now: datetime | None = None,
) -> Observation:
    """Observe a table now, on its own clock, by a daemon that was just started."""
    format_ = by or PaimonFormat()
    return format_.observe(registered(table), storage or LocalStorage(), previous, now=now or table.clock.now())


def view_of(table: PaimonTable) -> TableView:
    """Return the view of a table."""
    return observe(table).view


def look(table: PaimonTable, remembered: Memo | None = None, *, storage: Storage | None = None) -> Look:
    """Look at a table, without a view."""
    storage = storage or LocalStorage()
    head = table.newest or None
    return looked(str(table.folder), storage, remembered or Memo(), head=head, now=table.clock.now())


def facts_of(table: PaimonTable) -> NeedFacts:
    """Return all that a look finds."""
    return look(table).facts
