"""The store as it is on disk, read while the daemon runs or after its death."""

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


class StoreReader(Protocol):
    """What the harness reads from the store."""

    def active(self) -> frozenset[str]:
        """Return the runs that have not ended."""
        ...

    def blocked(self) -> Mapping[str, str]:
        """Return the reason of each Blocked service, by the last decision on it."""
        ...


class SqliteStoreReader:
    """The store of a daemon without replicas. Before the daemon has made it, it is empty. A store that was there and is
    not any more is an error.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        self._was_there = False

    def active(self) -> frozenset[str]:
        """Return the runs that have not ended."""
        return frozenset(run for (run,) in self._rows(_ACTIVE))

    def blocked(self) -> Mapping[str, str]:
        """Return the reason of each Blocked service, by the last decision on it."""
        return dict(self._rows(_BLOCKED))

    def _rows(self, question: str) -> Sequence[tuple[Any, ...]]:
        uri = f"file:{self._database}?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=10)) as connection:
                rows = connection.execute(question).fetchall()
        except sqlite3.OperationalError:
            if self._was_there:
                raise
            return []
        self._was_there = True
        return rows


class PostgresStoreReader:
    """The store of several replicas. Raises psycopg.Error if it cannot be read."""

    def __init__(self, url: str) -> None:
        self.url = url

    def active(self) -> frozenset[str]:
        """Return the runs that have not ended."""
        return frozenset(run for (run,) in self._rows(_ACTIVE))

    def blocked(self) -> Mapping[str, str]:
        """Return the reason of each Blocked service, by the last decision on it."""
        return dict(self._rows(_BLOCKED))

    def holder(self) -> str | None:
        """Return the living replica that has the share of the one table; None if no replica has it."""
        found = self._rows(_HOLDER)
        return str(found[0][0]) if found else None

    def _rows(self, question: LiteralString) -> Sequence[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(question).fetchall()
