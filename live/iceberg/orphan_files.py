"""Files that no commit refers to, as a writer leaves them that died before it committed: work for the orphans
service.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

from lakewarden.demo.snapshot import DemoState
from lakewarden.planners.model.instant import Service
from live.tally import tallies

AGE = timedelta(days=8)
"""The age that the files are given. A file may belong to a commit that is under way, so it is kept for a week."""

_EACH = 3


class OrphanFiles:
    """Writes some files as soon as the last ones are gone, `wanted` times in all."""

    def __init__(self, table: Path, *, wanted: int) -> None:
        self._table = table
        self._wanted = wanted
        self._left: list[list[Path]] = []

    def look(self, state: DemoState) -> None:
        """Write some more if the last ones are gone and a run has reported it."""
        done = tallies(state.runs).get(Service.ORPHANS)
        swept = 0 if done is None else done.succeeded
        if len(self._left) < self._wanted and swept >= len(self._left) and not self.lying():
            self._left.append(leave(self._table, number=len(self._left) + 1))

    def lying(self) -> list[Path]:
        """Return the files that are still there."""
        return [file for files in self._left for file in files if file.exists()]

    def complaints(self) -> list[str]:
        """Return a sentence for each file that should be gone and is not."""
        return [f"the orphan {file} was not deleted" for file in self.lying()]


def leave(table: Path, *, number: int) -> list[Path]:
    """Put some old files beside the table's own, and return their paths."""
    folder = table / "data" / "region=lost"
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / f"{number:05}-{one}-{uuid4()}-00001.parquet" for one in range(_EACH)]
    for file in files:
        file.write_bytes(b"lost")
        age(file)
    return files


def age(file: Path) -> None:
    """Give a file the age of an orphan."""
    then = time.time() - AGE.total_seconds()
    os.utime(file, (then, then))
