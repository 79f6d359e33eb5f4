"""The last changes of tables and runs, for clients that follow them. It holds so many, and waits for nothing."""

from __future__ import annotations

import threading
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from lakewarden.executors.contract import Permit, Plan
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked, Decision
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.run import Run
from lakewarden.service.rules.writer_failures import Blamed

KEPT = 2000
"""So many changes are kept. A client that is further behind has to read the lists again."""


class ChangeKind(StrEnum):
    """What a change is about."""

    RUN = "run"
    DECISION = "decision"
    TABLE = "table"


@dataclass(frozen=True, kw_only=True, slots=True)
class FeedChange:
    """One change. `number` rises by one. A `run` is as it was at the change. `what` is the name of an event of a table,
    and `detail` says it in words.
    """

    number: int
    at: datetime
    kind: ChangeKind
    table: TableId
    run: Run | None = None
    service: Service | None = None
    decision: Decision | None = None
    what: str | None = None
    detail: str | None = None


class Feed(Listener):
    """Any thread may add, read and watch. `life` is an id of this daemon: numbers begin anew with each daemon."""

    def __init__(self, clock: Clock, *, kept: int = KEPT) -> None:
        self.life = uuid.uuid4().hex[:12]
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[FeedChange] = deque(maxlen=kept)
        self._number = 0
        self._watchers: list[Callable[[], None]] = []
        self._closed = False

    @property
    def newest(self) -> int:
        """The number of the newest change. 0 before the first one."""
        with self._lock:
            return self._number

    @property
    def closed(self) -> bool:
        """Whether the daemon ends."""
        return self._closed

    def after(self, number: int) -> Sequence[FeedChange] | None:
        """Return the changes after a number, the oldest first. None if some of them are not kept any more."""
        with self._lock:
            oldest = self._kept[0].number if self._kept else self._number + 1
            if not oldest - 1 <= number <= self._number:
                return None
            missing = self._number - number
            return list(self._kept)[len(self._kept) - missing :]

    def kept(self) -> Sequence[FeedChange]:
        """Return all changes that are kept, the oldest first."""
        with self._lock:
            return list(self._kept)

    def watch(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each change, in the thread that added the change. It must return at once.

        Return what ends that.
        """
        with self._lock:
            self._watchers = [*self._watchers, wake]

        def end() -> None:
            with self._lock:
                self._watchers = [one for one in self._watchers if one is not wake]

        return end

    def close(self) -> None:
        """Let the clients go, because the daemon ends."""
        self._closed = True
        for wake in self._watchers:
            wake()

    def add_run(self, run: Run) -> None:
        """Add a change of a run, such as its progress."""
        self._add(ChangeKind.RUN, run.table, run=run)

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Add a decision."""
        self._add(ChangeKind.DECISION, table.id, service=service, decision=decision)

    def unblocked(self, table: Table, service: Service, decision: Decision) -> None:
        """Leave it to `decided`, which is told as well."""

    def requested(self, run: Run) -> None:
        """Add a run that was queued."""
        self.add_run(run)

    def started(self, run: Run) -> None:
        """Add a run that a worker got."""
        self.add_run(run)

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Add a run with another step, or a wait."""
        self.add_run(run)

    def ended(self, run: Run) -> None:
        """Add a run that ended."""
        self.add_run(run)

    def adopted(self, run: Run) -> None:
        """Add a run of a dead replica."""
        self.add_run(run)

    def poll_failed(self, table: Table, reason: str) -> None:
        """Add a failure to observe a table."""
        self._add(ChangeKind.TABLE, table.id, what="poll_failed", detail=reason)

    def warned(self, table: Table, warning: str) -> None:
        """Add a warning."""
        self._add(ChangeKind.TABLE, table.id, what="warned", detail=warning)

    def claimed_by_another(self, table: Table, blocked: Blocked | None) -> None:
        """Add a claim of another daemon, or its end."""
        what = "claim_gone" if blocked is None else "claimed_by_another"
        self._add(ChangeKind.TABLE, table.id, what=what, detail=None if blocked is None else blocked.reason)

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Add a failed write."""
        self._add(ChangeKind.TABLE, table.id, what="writer_failed", detail=blamed.failure.reason)

    def approved(self, table: TableId, service: Service, deletion: Plan, by: str) -> None:
        """Add an approval."""
        self._add(ChangeKind.TABLE, table, service=service, what="approved", detail=f"approved by {by}")

    def _add(
        self,
        kind: ChangeKind,
        table: TableId,
        *,
        run: Run | None = None,
        service: Service | None = None,
        decision: Decision | None = None,
        what: str | None = None,
        detail: str | None = None,
    ) -> None:
        at = self._clock.now()
        with self._lock:
            self._number += 1
            change = FeedChange(
                number=self._number,
                at=at,
                kind=kind,
                table=table,
                run=run,
                service=service,
                decision=decision,
                what=what,
                detail=detail,
            )
            self._kept.append(change)
            watchers = self._watchers
        for wake in watchers:
            wake()
