"""A database as the parts of the store use it: transactions that read, transactions that write, errors translated."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from lakewarden.service.store.sql.trouble import AwayError, translated

REST = timedelta(seconds=2)
"""For so long, at most, nobody else waits for a database for which one call has waited in vain: they fail at once.
A turn of the control thread makes many calls.
"""


class _Queue:
    """Those who would wait for the same: whoever waited in vain speaks for the others. For any thread."""

    def __init__(self, rest: timedelta) -> None:
        self._rest = rest.total_seconds()
        self._until = float("-inf")
        self._trouble = ""

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait within the bracket, unless somebody has just waited in vain: then raise what he was told."""
        begun = time.monotonic()
        if begun < self._until:
            raise AwayError(self._trouble)
        try:
            yield
        except AwayError as trouble:
            now = time.monotonic()
            if now - begun >= self._rest:
                self._trouble, self._until = str(trouble), now + self._rest
            raise


class Database:
    """A database under the name that its errors tell."""

    def __init__(self, engine: sa.Engine, *, name: str, patience: timedelta, renewing: sa.Engine | None = None) -> None:
        """`patience` is how long a call waits for the database.

        `renewing` has a connection of its own, so that leases are renewed whatever the others wait for.
        """
        self.name = name
        self._engine = engine
        self._renewing = renewing or engine
        rest = min(REST, patience / 2)
        self._reading, self._writing = _Queue(rest), _Queue(rest)  # a file that is locked can be read

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()
        self._renewing.dispose()

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._reading.patiently(), translated(self.name), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        writing = self._engine.execution_options(writing=True)
        with self._writing.patiently(), translated(self.name), writing.begin() as connection:
            yield connection

    @contextmanager
    def _renew(self) -> Iterator[sa.Connection]:
        with translated(self.name), self._renewing.execution_options(writing=True).begin() as connection:
            yield connection
