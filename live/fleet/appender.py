"""The live writer of some Iceberg tables: pyiceberg, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException

from live.fleet.making.iceberg_tables import NAMESPACE, rows_of

_EVERY_SECONDS = 3.0
_TRIES = 10
_FIRST = 1000


class Appender:
    """Appends to tables in turn. A commit that lost against another one is tried again, as Iceberg's clients do.

    `acknowledged` are the commits of each table, `failures` are what a client would have told its user.
    """

    def __init__(self, catalog: Catalog, tables: Sequence[str]) -> None:
        self._catalog = catalog
        self.acknowledged: dict[str, list[int]] = {table: [] for table in tables}
        self.failures: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._append, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End after the commit under way."""
        self._ended.set()
        self._thread.join(timeout=60)

    def _append(self) -> None:
        number = _FIRST
        while not self._ended.is_set():
            for table, acknowledged in self.acknowledged.items():
                if self._committed(table, number):
                    acknowledged.append(number)
            number += 1
            self._ended.wait(_EVERY_SECONDS)

    def _committed(self, table: str, number: int) -> bool:
        failure = ""
        for _ in range(_TRIES):
            try:
                self._catalog.load_table((NAMESPACE, table)).append(rows_of(number))
            except CommitFailedException as lost:
                failure = str(lost)
            except Exception as error:  # noqa: BLE001 - what fails is counted
                failure = f"{type(error).__name__}: {error}"
                break
            else:
                return True
        self.failures.append(f"{table}: {failure}"[:500])
        return False
