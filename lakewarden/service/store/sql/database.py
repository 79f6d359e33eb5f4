"""A database as the parts of the store use it: transactions that read, transactions that write, errors translated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from lakewarden.service.store.sql.trouble import translated


class Database:
    """A database under the name that its errors tell."""

    def __init__(self, engine: sa.Engine, *, name: str, renewing: sa.Engine | None = None) -> None:
        """`renewing` has a connection of its own, so that leases are renewed whatever the others wait for."""
        self.name = name
        self._engine = engine
        self._renewing = renewing or engine

    def close(self) -> None:
        """Release the database."""
        self._engine.dispose()
        self._renewing.dispose()

    @contextmanager
    def _read(self) -> Iterator[sa.Connection]:
        with translated(self.name), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[sa.Connection]:
        with translated(self.name), self._engine.execution_options(writing=True).begin() as connection:
            yield connection

    @contextmanager
    def _renew(self) -> Iterator[sa.Connection]:
        with translated(self.name), self._renewing.execution_options(writing=True).begin() as connection:
            yield connection
