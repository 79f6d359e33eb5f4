"""The store as it is on disk, read beside the daemon or after its death."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, LiteralString, Protocol

import psycopg

_ACTIVE = "SELECT id FROM runs WHERE ended_at IS NULL"
_HOLDER = """SELECT shares.replica FROM shares JOIN replicas ON replicas.id = shares.replica
    WHERE replicas.ended_at IS NULL AND (replicas.lease_until IS NULL OR replicas.lease_until > now())"""
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


class PostgresLedger:
    """The store of several replicas. Raises psycopg.Error where it cannot be read."""

    def __init__(self, url: str) -> None:
        self.url = url

    def active(self) -> frozenset[str]:
        """Return the runs that have not ended."""
        return frozenset(run for (run,) in self._rows(_ACTIVE))

    def blocked(self) -> Mapping[str, str]:
        """Return why each service is Blocked that is, by the last decision on it."""
        return dict(self._rows(_BLOCKED))

    def holder(self) -> str | None:
        """Return the living replica that has the share of the one table; None where nobody has."""
        found = self._rows(_HOLDER)
        return str(found[0][0]) if found else None

    def _rows(self, question: LiteralString) -> Sequence[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(question).fetchall()
