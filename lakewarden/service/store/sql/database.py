"""A database for the parts of the store: transactions that read, transactions that write, and translated errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta

import sqlalchemy as sa

from lakewarden.service.store.sql.errors import AwayError, translated

REST = timedelta(seconds=2)
"""If one call to the database times out, other calls fail at once for this long at most, because a turn of the control
thread makes many calls.
"""


class _Queue:
    """Calls that wait for the same thing. If one of them times out, the others fail at once. For any thread."""

    def __init__(self, rest: timedelta) -> None:
        self._rest = rest.total_seconds()
        self._until = float("-inf")
        self._error = ""

    @contextmanager
    def patiently(self) -> Iterator[None]:
        """Wait inside the `with` block. If another call has just timed out, raise its error at once."""
        begun = time.monotonic()
        if begun < self._until:
            raise AwayError(self._error)
        try:
            yield
        except AwayError as error:
            now = time.monotonic()
            if now - begun >= self._rest:
                self._error, self._until = str(error), now + self._rest
            raise


class Database:
    """A database, with the name that its errors use."""

    def __init__(
        self,
        engine: sa.Engine,
        *,
        name: str,
        timeout: timedelta,
        renewing: sa.Engine | None = None,
        single: sa.Engine | None = None,
        require: Callable[[], None] = lambda: None,
    ) -> None:
        """`timeout` is how long a call waits for the database.

        `renewing` has a connection of its own, so leases are renewed even if other calls wait. `single` begins no
        transactions: where each statement sees the newest data anyway, one that reads or stands alone needs none, and
        an idle fleet asks a third as much. `require` raises
        AwayError if what is written now would be lost. It is asked before and after each writing transaction.
        """
        self.name = name
        self._require = require
        self._engine = engine
        self._renewing = renewing or engine
        self._single = single or engine
        self._write_error: str | None = None
        rest = min(REST, timeout / 2)
        self._reading, self._writing = _Queue(rest), _Queue(rest)  # a file that is locked can still be read

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()
        self._renewing.dispose()

    @property
    def write_error(self) -> str | None:
        """Why the last transaction could not be written."""
        return self._write_error

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with self._reading.patiently(), translated(self.name), self._single.begin() as connection:
            yield connection

    def _write(self) -> AbstractContextManager[sa.Connection]:
        return self._writing_by(self._engine)

    def _write_one(self) -> AbstractContextManager[sa.Connection]:
        """Open a connection for one statement that writes."""
        return self._writing_by(self._single)

    @contextmanager
    def _writing_by(self, engine: sa.Engine) -> Iterator[sa.Connection]:
        writing = engine.execution_options(writing=True)
        try:
            self._require()
            with self._writing.patiently(), translated(self.name), writing.begin() as connection:
                yield connection
            self._require()
        except AwayError as error:
            self._write_error = str(error)
            raise
        self._write_error = None

    @contextmanager
    def _renew(self) -> Iterator[sa.Connection]:
        with translated(self.name), self._renewing.execution_options(writing=True).begin() as connection:
            yield connection
