"""A live writer of several fake tables: it commits to one after the other, and counts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from tests.support.doubles.fake.table import FakeTable

_EVERY_SECONDS = 0.1


class LiveWriter(threading.Thread):
    """Writes until it is told to end. What it could not write is a failure of the writer."""

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__(name="writer", daemon=True)
        self._tables = [FakeTable(folder) for folder in folders]
        self._over = threading.Event()
        self.expected = [table.rows for table in self._tables]
        self.failures: list[str] = []

    def run(self) -> None:
        """Write until the end."""
        while True:
            for number, table in enumerate(self._tables):
                if self._over.wait(_EVERY_SECONDS):
                    return
                try:
                    table.write(rows=1)
                    self.expected[number] += 1
                except Exception as error:  # noqa: BLE001 - each one is what a writer must not see
                    self.failures.append(f"{type(error).__name__}: {error}")

    def end(self) -> None:
        """Write no more."""
        self._over.set()
        self.join(timeout=30)

    def found(self) -> list[int]:
        """Return the rows of each table, as a reader counts them."""
        return [table.rows for table in self._tables]
