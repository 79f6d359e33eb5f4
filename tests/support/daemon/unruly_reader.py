"""A process that reads tables, and does with some what their names say: it hangs, crashes, swells, dawdles or waits.

It is the reader that ships, with a format that a damaged table would need the worst luck for.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import FileEntry, Observation, Storage
from lakewarden.planners.reading.process import Hello, serve
from lakewarden.planners.storage import LocalStorage
from tests.support.doubles.fake import FakeFormat

RELEASED, READS = "released", "reads"
"""The file that a table waits for, and the one in which each reading of a whole large table leaves a character."""

COMMAND = (sys.executable, "-m", "tests.support.daemon.unruly_reader")


class Unruly(FakeFormat):
    """Reads fake tables, but for those with a name that says otherwise."""

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view, if its name is a good one."""
        name = table.location.rpartition("/")[2]
        _act(name)
        folder = Path(_near(table.location))
        while name.startswith("waits") and not (folder / RELEASED).exists():
            time.sleep(0.01)
        if name.startswith("is-large") and (previous is None or previous.memo is None):
            with (folder / READS).open("a") as reads:
                reads.write("1")
            time.sleep(1.5)
        return super().observe(table, storage, previous, now=now)

    def token(self, table: Table, storage: Storage) -> str:
        """Return the table's token; one whose name says so hangs here, too."""
        if table.location.endswith("hangs-at-its-token"):
            time.sleep(3600)
        return super().token(table, storage)


def _act(name: str) -> None:
    if name.startswith("hangs"):
        time.sleep(3600)
    if name.startswith("spins"):
        while True:
            pass
    if name.startswith("crashes"):
        ctypes.string_at(0)
    if name.startswith("swells"):
        bytearray(2**40)
    if name.startswith("dawdles"):
        time.sleep(1.5)


class Near(LocalStorage):
    """Local disks, where the tables of a store lie too: `s3://bucket/folder` is `/folder`."""

    def stamp(self, location: str) -> str:
        """Return the folder's stamp."""
        return super().stamp(_near(location))

    def changed_at(self, location: str) -> datetime | None:
        """Return when it changed."""
        return super().changed_at(_near(location))

    def listing(self, location: str, **bounds: int) -> Sequence[FileEntry]:
        """Return its entries."""
        return super().listing(_near(location), **bounds)

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return the file's content."""
        return super().read(_near(location), limit=limit)


def _near(location: str) -> str:
    return "/" + location.partition("://")[2].partition("/")[2] if "://" in location else location


def _storage_for(_hello: Hello) -> Callable[[str], Storage]:
    return lambda _location: Near()


if __name__ == "__main__":
    serve(sys.argv[1:], formats={"fake": Unruly()}, storage_for=_storage_for)
