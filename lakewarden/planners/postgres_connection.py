"""A connection to PostgreSQL with bounded waits. The driver is optional, so this module is imported only where it is
needed.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

_Answer = TypeVar("_Answer")


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed if an answer does not come in time. A late answer would be taken for the answer to
    the next query.
    """

    answer_within: timedelta
    """How long an answer may take."""

    def wait(self, gen: PQGen[_Answer], interval: float = 0.1, timeout: float | None = None) -> _Answer:
        """Wait for an answer. Raises psycopg.OperationalError if none comes in time."""
        try:
            return super().wait(gen, interval, timeout or self.answer_within.total_seconds())
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
            raise
