"""The store as it is on disk, read beside the daemon or after its death."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

_ACTIVE = "SELECT id FROM runs WHERE ended_at IS NULL"
_BLOCKED = "SELECT service, reason FROM decisions WHERE decision = 'Blocked'"


class Ledger(Protocol):
    """What the harness looks at."""

    def active(self) -> frozenset[str]:
        """Return the runs that have not ended."""
        ...

    def blocked(self) -> Mapping[str, str]:
        """Return why each service is Blocked that is, by the last decision on it."""
        ...


class SqliteLedger:
    """The store of a daemon without replicas."""

    def __init__(self, database: Path) -> None:
        self._database = database

    def active(self) -> frozenset[str]:
        """Return the runs that have not ended."""
        return frozenset(run for (run,) in self._rows(_ACTIVE))

    def blocked(self) -> Mapping[str, str]:
        """Return why each service is Blocked that is, by the last decision on it."""
        return dict(self._rows(_BLOCKED))

    def _rows(self, question: str) -> Sequence[tuple[Any, ...]]:
        uri = f"file:{self._database}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
            return connection.execute(question).fetchall()
