"""What a trial leaves for ttl and orphans: an expired partition in which a dead job has left a part in progress."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from lakewarden.demo.formats.directory.reader import EXPIRED
from lakewarden.demo.formats.directory.writer import SCHEMA

_FILES = 3
_LONG_AGO_SECONDS = 7200


class Leftovers:
    """Leaves the next partition as soon as the last one is gone."""

    def __init__(self) -> None:
        self._number = 0
        self._last: Path | None = None

    def leave(self, table: Path) -> None:
        """Leave a partition in a table, if there is a table and no partition was left that is still there."""
        if not table.exists() or self.lying():
            return
        self._number += 1
        home = table / f"{EXPIRED}01-01" / f"at={self._number:06}"
        hidden = home.with_name(f".{home.name}.tmp")
        hidden.mkdir(parents=True)
        rows = pa.Table.from_arrays([pa.array([f"expired-{self._number}"]), pa.array([0], pa.int32())], schema=SCHEMA)
        for number in range(_FILES):
            parquet.write_table(rows, hidden / f"part-dead-0-{number}", store_schema=False)
        (hidden / ".part-dead-0-9.inprogress.77").touch()
        then = time.time() - _LONG_AGO_SECONDS
        for path in (*hidden.iterdir(), hidden):
            os.utime(path, (then, then))
        hidden.rename(home)
        self._last = home

    def lying(self) -> list[str]:
        """Return what was left and is still there, in words."""
        if self._last is None or not self._last.exists():
            return []
        return [f"the expired partition {self._last.name} was not deleted"]
