"""The audit log: it writes each act into the store, before the act takes effect."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.access import Act, ActKind, Caller

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store


class AuditLog:
    """Notes acts. Only the control thread uses it."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    def note(
        self,
        caller: Caller,
        kind: ActKind,
        *,
        by: str | None = None,
        table: TableId | None = None,
        service: Service | None = None,
        before: str | None = None,
        after: str | None = None,
    ) -> None:
        """Write an act. `by` is the name that was given instead of the caller's. Raises TemporaryError."""
        self._store.note_act(
            Act(
                at=self._clock.now(),
                who=by or caller.name,
                key=caller.key,
                kind=kind,
                table=table,
                service=service,
                before=before,
                after=after,
            )
        )
