"""The two tables of a job, and what is wrong with their rows at a moment. A snapshot has the numbers of whole
checkpoints, so a reader always finds the numbers from 1 on without a gap.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from live.paimon.history import SnapshotsSeen
from live.paimon.plain_reader import PlainReader

KEYS = 500


class Shop:
    """Everything below one folder, read without any code of Paimon."""

    def __init__(self, folder: Path) -> None:
        self.warehouse = folder / "warehouse"
        self.folders = {table: self.warehouse / "shop.db" / table for table in ("orders", "events")}
        self.seen = {table: SnapshotsSeen(place) for table, place in self.folders.items()}
        self._readers = {
            "orders": PlainReader(self.folders["orders"], key="k", columns=("k", "id")),
            "events": PlainReader(self.folders["events"], key=None, columns=("id", "dt")),
        }

    def newest(self, table: str) -> int:
        """Return the newest number in a table. It is 0 before the first snapshot."""
        return max((row["id"] for row in self._rows(table)), default=0)

    def complaint(self, table: str) -> str:
        """Return what is wrong with the rows of a table now. Empty if nothing is wrong."""
        rows = self._rows(table)
        newest = max((row["id"] for row in rows), default=0)
        if table == "orders":
            wanted = {number % KEYS: number for number in range(1, newest + 1)}
            found = {row["k"]: row["id"] for row in rows}
            wrong, twice = sum(found.get(key) != number for key, number in wanted.items()), len(rows) - len(found)
        else:
            numbers = {row["id"] for row in rows}
            wrong, twice = len(set(range(1, newest + 1)) ^ numbers), len(rows) - len(numbers)
        return f"{table} has {wrong} wrong rows and {twice} rows twice up to {newest}" if wrong or twice else ""

    def level_0_files(self, table: str) -> int:
        """Return how many files of level 0 the newest snapshot has. All files of an append table are."""
        newest = self._newest(table)
        return 0 if newest is None else sum(level == 0 for level in self._readers[table].content(newest).data.values())

    def compactions(self, table: str) -> int:
        """Return how many compactions of Lakewarden a table has had."""
        self.seen[table].look()
        return len(self.seen[table].authors())

    def _rows(self, table: str) -> list[Mapping[str, Any]]:
        newest = self._newest(table)
        return [] if newest is None else self._readers[table].merged(newest)

    def _newest(self, table: str) -> Mapping[str, Any] | None:
        snapshots = self._readers[table].snapshots()
        return snapshots[max(snapshots)] if snapshots else None
