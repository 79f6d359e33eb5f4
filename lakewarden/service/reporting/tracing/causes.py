"""The hooks that caused a run: those about its table since the previous run of the same service."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.heard import HeardHook

KEPT = 32
"""So many hooks of a table are kept: the newest."""

_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?")
_SAMPLED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class SentBy:
    """The span of a writer that sent a hook."""

    trace_id: int
    span_id: int
    sampled: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Cause:
    """A hook that caused a run. `sent_by` is None if the hook did not say which span sent it."""

    sender: str
    at: datetime
    sent_by: SentBy | None


class Causes:
    """The newest hooks of each table. Any thread may add one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._hooks: dict[TableId, deque[tuple[int, Cause]]] = {}
        self._taken: dict[tuple[TableId, Service], int] = {}

    def add(self, heard: HeardHook, at: datetime) -> None:
        """Note a hook."""
        if not heard.tables:
            return
        cause = Cause(sender=heard.sender, at=at, sent_by=sent_by(heard.traceparent))
        with self._lock:
            self._count += 1
            for table in heard.tables:
                self._hooks.setdefault(table, deque(maxlen=KEPT)).append((self._count, cause))

    def take(self, table: TableId, service: Service) -> Sequence[Cause]:
        """Return the hooks about a table since the last call for the same service, the oldest first."""
        with self._lock:
            known = self._taken.get((table, service), 0)
            self._taken[table, service] = self._count
            return [cause for number, cause in self._hooks.get(table, ()) if number > known]


def sent_by(traceparent: str | None) -> SentBy | None:
    """Return the span that a header `traceparent` names (W3C Trace Context, level 1), or None if it names none."""
    found = _TRACEPARENT.fullmatch(traceparent or "")
    if found is None or (found[0].startswith("00") and len(found[0]) != len("00--00-") + 48):
        return None
    trace_id, span_id = int(found[1], 16), int(found[2], 16)
    if not trace_id or not span_id:
        return None
    return SentBy(trace_id=trace_id, span_id=span_id, sampled=bool(int(found[3], 16) & _SAMPLED))
