"""What the writers of a table kept and the policies do not keep. After a clean of ours it no longer counts."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import KeptMore, TableView
from lakewarden.service.store.port import Store

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
        known, ours = self._ours.get(table.id, {}), dict[_Key, bool]()
        for service, one in view.kept_more.items():
            key = (str(view.identity), service, one.instant)
            try:
                ours[key] = known[key] if key in known else self._is_ours(*key)
            except TemporaryError:
                return
        self._ours[table.id] = ours
        self._kept[table.id] = {
            service: one
            for service, one in view.kept_more.items()
            if not ours[str(view.identity), service, one.instant]
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
