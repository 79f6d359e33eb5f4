"""The demo on Paimon: a table with a primary key in a warehouse in a folder, and Paimon's own reader to read it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError

from lakewarden.demo.daemon import TABLE
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.formats.paimon.reader import count_data_files, read_snapshot
from lakewarden.demo.formats.paimon.writer import Core
from lakewarden.demo.reader import TableRows

DATABASE = "shop"
_EXPIRED_EVERY = 4
"""So many commits of the writer bring a partition that is long past."""


class PaimonDemo(FormatDemo):
    """The writer also leaves partitions that are long past, for ttl."""

    format = "paimon"
    services: Mapping[str, Any] = {
        "compaction": {"trigger": {"num_commits": 5}},
        "clean": {
            "trigger": {"num_commits": 6},
            "options": {"max_snapshot_age": "10s", "min_snapshots_to_keep": 3},
        },
        "archive": {"trigger": {"num_commits": 10}},
        "partition_commit": {"options": {"idle_time": "2s"}},
        "ttl": {"trigger": {"num_commits": 1}, "options": {"retain": "1d"}},
    }
    promised: Sequence[str] = ("compaction", "clean", "archive", "partition_commit", "ttl")
    """Orphans has nothing to do: a file must be a day old."""
    counted: Mapping[str, str] = {
        "level_0_files": "files of level 0 to merge",
        "data_files": "data files",
        "snapshots": "snapshots",
        "stored_files": "files stored",
    }
    to_merge = "level_0_files"
    writer = "lakewarden.demo.formats.paimon.writer"
    reader = "lakewarden.demo.formats.paimon.reader"

    def folder(self, directory: Path) -> Path:
        """Return the folder in which a catalog puts the table."""
        return directory / "warehouse" / f"{DATABASE}.db" / TABLE

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments. It also writes into days that are long past, which are done, and expire."""
        return (*super().writer_arguments(directory), "--expired-every", str(_EXPIRED_EVERY))

    def entry(self, table: Path, _start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Return the table's entry in the configuration. Its cadence is short, for no hook tells of a commit."""
        options = {"longest_outage": "10s"}
        return {"format": self.format, "path": str(table), "poll": "1s", "options": options}

    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as Paimon's own reader reads them. Raises RuntimeError with the error of Paimon."""
        core = Core()
        try:
            return read_snapshot(core, self.folder(directory))
        except Py4JError as error:  # its text lies in the JVM, which ends here
            raise RuntimeError(str(error)) from None
        finally:
            core.close()

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the number of data files in the table's folder, whether or not a snapshot refers to them."""
        return {"stored_files": count_data_files(self.folder(directory))}


DEMO = PaimonDemo()
