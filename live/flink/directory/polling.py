"""A reader that polls a directory all the time, by duckdb: no number may be there twice, and none may go."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

import duckdb

from lakewarden.demo.formats.directory.reader import listed


@dataclass
class Polling:
    """What the reader has found so far. `complaints` are of listings that were read as a whole."""

    folder: Path
    reads: int = 0
    newest: int = 0
    rows: int = 0
    complaints: list[str] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Poll in a thread."""
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Read once more, and end."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        self.read()

    def _poll(self) -> None:
        while not self._ended.wait(0.05):
            self.read()

    def read(self) -> None:
        """List the files, read exactly these, and list them again. A file that is gone makes the listing out of date.

        A listing has no number twice, whatever happens while it is made. If the second one is equal, it has all numbers
        that were there before.
        """
        try:
            files = listed(self.folder)
        except FileNotFoundError:  # there is no directory yet, or a partition was exchanged in this moment
            return
        if not files:
            return
        try:
            query = "select count(*), count(distinct id), max(id) from read_parquet(?)"
            [(rows, different, newest)] = duckdb.connect().execute(query, [[file.path for file in files]]).fetchall()
            again = listed(self.folder)
        except (duckdb.IOException, FileNotFoundError):
            return
        self.reads += 1
        if rows != different:
            self.complaints.append(f"{rows - different} rows are there twice up to {newest}")
        if again == files:
            if rows < self.rows:
                self.complaints.append(f"{self.rows - rows} rows are gone at {newest}")
            self.rows, self.newest = rows, newest
