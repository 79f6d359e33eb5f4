"""The notices in a store without a database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime

from lakewarden.service.model.notices import Key, NoticeRow


class MemoryNotices:
    """Keeps notices in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self._notices: dict[Key, NoticeRow] = {}
        self._notices_lock = threading.Lock()

    def notices(self) -> Sequence[NoticeRow]:
        """Return every notice."""
        with self._notices_lock:
            return [*self._notices.values()]

    def claim_notices(self, rows: Sequence[NoticeRow], *, at: datetime) -> Sequence[NoticeRow]:
        """Add the rows, and return those that their replica may send."""
        with self._notices_lock:
            free = [row for row in rows if _may_claim(row, self._notices.get(row.key), at)]
            self._notices.update({row.key: row for row in free})
            return free

    def keep_notices(self, rows: Sequence[NoticeRow]) -> None:
        """Keep rows."""
        with self._notices_lock:
            self._notices.update({row.key: row for row in rows})

    def forget_notices(self, rows: Sequence[NoticeRow]) -> None:
        """Delete rows."""
        with self._notices_lock:
            for row in rows:
                self._notices.pop(row.key, None)


def _may_claim(row: NoticeRow, there: NoticeRow | None, at: datetime) -> bool:
    return there is None or (there.sent_at is None and (there.replica == row.replica or there.claimed_until <= at))
