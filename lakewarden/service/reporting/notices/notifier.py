"""Operators are told once of what needs them, also over restarts and by several replicas. Nothing waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import structlog

from lakewarden.executors.edge import edge
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.config.daemon.notifications import NotificationSettings
from lakewarden.service.control.plane import ControlPlane, TableStatus
from lakewarden.service.model.history import Debt
from lakewarden.service.model.notices import NoticeKind, NoticeRow
from lakewarden.service.reporting.debt import MANY_TABLES, debt_of
from lakewarden.service.reporting.notices.finding import Notice, changes, notices_of
from lakewarden.service.reporting.notices.message import message_of
from lakewarden.service.reporting.notices.sending import NotSentError, Webhook
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 500
"""So many notices are in one message. The others wait for the next one."""

FIRST_REST = timedelta(seconds=15)
LONGEST_REST = timedelta(minutes=15)
"""How long to wait after a failure. The time doubles with each one, from the first to the longest."""

_LOOK = timedelta(seconds=5)
_LOOK_AT_MANY = timedelta(minutes=1)
_CLAIM = timedelta(minutes=5)

Count = Callable[[str], None]
"""Counts a message, by its result: `sent` or `failed`."""


class Notifier:
    """Finds notices in the tables that this replica owns, and sends them. Not thread-safe.

    The causes themselves are the queue: what was not told yet is found again at each look. So nothing piles up while a
    receiver is away, and a restart loses nothing.
    """

    def __init__(
        self,
        plane: ControlPlane,
        store: Store,
        settings: NotificationSettings,
        clock: Clock,
        *,
        replica: str,
        page: str,
        count: Count,
        webhook: Webhook | None = None,
    ) -> None:
        self._plane = plane
        self._store = store
        self._settings = settings
        self._clock = clock
        self._replica = replica
        self._page = page.rstrip("/")
        self._count = count
        self._webhook = webhook or Webhook(settings)
        self._measured: dict[TableId, tuple[TableView, Mapping[Service, Debt]]] = {}
        self._failures = 0
        self._not_before = clock.monotonic()

    def look(self) -> int:
        """Tell what was not told yet, and return how many notices a receiver has taken. Raises TemporaryError."""
        now = self._clock.now()
        statuses = [status for status in self._plane.tables() if status.view is not None]
        seen = {status.table.id for status in statuses}
        found = changes(
            self._store.notices(), [*self._found(statuses, now)], seen=seen, now=now, quiet=self._settings.quiet
        )
        if found.keep:
            self._store.keep_notices(found.keep)
        if found.forget:
            self._store.forget_notices(found.forget)
        if not found.untold or self._clock.monotonic() < self._not_before:
            return 0
        return self._tell(found.untold[:MOST_AT_ONCE], now)

    def next_look(self) -> timedelta:
        """Return how long to wait for the next look."""
        return _LOOK_AT_MANY if len(self._measured) > MANY_TABLES else _LOOK

    def _tell(self, untold: Sequence[Notice], now: datetime) -> int:
        claims = {
            notice.key: NoticeRow(
                table=notice.table,
                kind=notice.kind,
                subject=notice.subject,
                found_at=now,
                replica=self._replica,
                claimed_until=now + _CLAIM,
            )
            for notice in untold
        }
        claimed = self._store.claim_notices([*claims.values()], at=now)
        if not claimed:
            return 0
        ours = {row.key for row in claimed}
        notices = [notice for notice in untold if notice.key in ours]
        try:
            self._webhook.send(message_of(notices, self._settings.payload, page=self._page))
        except NotSentError as error:
            self._rest(error)
            return 0
        self._failures = 0
        self._not_before = self._clock.monotonic() + self._settings.every.total_seconds()
        self._store.keep_notices([replace(row, sent_at=self._clock.now()) for row in claimed])
        self._count("sent")
        log.info("notification_sent", notices=len(notices))
        return len(notices)

    def _rest(self, error: NotSentError) -> None:
        """Leave the receiver alone for a time."""
        rest = min(FIRST_REST * 2 ** min(self._failures, 10), LONGEST_REST)
        if error.after is not None:
            rest = min(max(rest, error.after), LONGEST_REST)
        self._failures += 1
        self._not_before = self._clock.monotonic() + rest.total_seconds()
        self._count("failed")
        log.warning("notification_failed", reason=str(error), again_in_seconds=rest.total_seconds())

    def _found(self, statuses: Sequence[TableStatus], now: datetime) -> Iterator[Notice]:
        approvals = self._plane.approvals() if any(status.approvals for status in statuses) else ()
        waiting = [row for row in approvals if row.approved_at is None]
        self._measured = {one.table.id: self._debts(one.table, one.view) for one in statuses if one.view is not None}
        for status in statuses:
            of_table = [row for row in waiting if row.table == status.table.id] if status.approvals else []
            debts = self._measured[status.table.id][1]
            for notice in notices_of(status, of_table, debts, self._settings.debt, now):
                if notice.kind in self._settings.about:
                    yield notice

    def _debts(self, table: Table, view: TableView) -> tuple[TableView, Mapping[Service, Debt]]:
        """Return what has piled up in a table. It is measured again only for another view, and only if there is a
        limit.
        """
        known = self._measured.get(table.id)
        if known is not None and known[0] is view:
            return known
        asked = self._settings.debt.any and NoticeKind.DEBT in self._settings.about
        return view, debt_of(view, table) if asked else {}


@contextmanager
def notifying(notifier: Notifier | None) -> Iterator[None]:
    """Look again and again inside the `with` block, in a thread. None does nothing."""
    if notifier is None:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_look_on, args=(notifier, over), name="notifications", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=1)


def _look_on(notifier: Notifier, over: threading.Event) -> None:
    while not over.wait(notifier.next_look().total_seconds()):
        with edge("notification_failed"):
            try:
                notifier.look()
            except TemporaryError as error:
                log.warning("store_unavailable", error=str(error))
