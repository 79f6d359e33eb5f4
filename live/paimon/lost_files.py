"""Files that no commit names, as a writer leaves them that died long ago: work for the orphans service."""

from __future__ import annotations

import os
import shutil
import time
import uuid
from pathlib import Path

_AGE_SECONDS = 10 * 86_400
"""Older than any job is restored."""


class LostFiles:
    """Copies a data file and a manifest of a table under new names of Paimon's, every few seconds."""

    def __init__(self, folder: Path, *, every_seconds: float = 3.0) -> None:
        self._folder = folder
        self._every = every_seconds
        self._next = 0.0
        self.left: set[Path] = set()

    def look(self) -> None:
        """Leave two files, if it is time."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._every
        for pattern in ("**/bucket-*/data-*", "manifest/manifest-list-*"):
            one = next(iter(sorted(self._folder.glob(pattern))), None)
            if one is not None:
                self._lose(one)

    def deleted(self) -> int:
        """Return how many of them are gone."""
        return sum(not file.exists() for file in self.left)

    def _lose(self, one: Path) -> None:
        head = "data-" if one.suffix else "manifest-list-"
        lost = one.with_name(f"{head}{uuid.uuid4()}-0{one.suffix}")
        try:
            shutil.copyfile(one, lost)
        except FileNotFoundError:  # it has expired meanwhile
            lost.unlink(missing_ok=True)
            return
        at = time.time() - _AGE_SECONDS
        os.utime(lost, (at, at))
        self.left.add(lost)
