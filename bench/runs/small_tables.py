"""Small real Hudi tables with work for services. One is written, and copied as often as needed.

python -m bench.runs.small_tables DIRECTORY WORKLOAD      writes the original
"""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakewarden.demo.daemon import ZooKeeper
from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options

COMMITS = {Workload.REGIONS: 4, Workload.DAYS: 6}


class SmallTables:
    """A ZooKeeper, and copies of a merge-on-read table. The workload of regions has 3 file groups and 3 rounds of log
    files; the workload of days has 3 small files for each day and a few log files.
    """

    def __init__(self, folder: Path, zookeeper: ZooKeeper, workload: Workload) -> None:
        self.folder = folder
        self._zookeeper = zookeeper
        self._original = _original(workload)

    def copy(self, name: str, *, into: str = "tables") -> Path:
        """Copy the table with the times of its files."""
        return Path(shutil.copytree(self._original, self.folder / into / name))

    def options(self, name: str) -> dict[str, Any]:
        """Return the options of the table `name`: its lock, which no writer of a copy has ever taken."""
        lock = {"provider": "zookeeper", "url": self._zookeeper.address, "base_path": "/hudi", "lock_key": name}
        return {"lock": lock, "lock_proof": "trusted"}

    def served_as(self, names: Sequence[str], *, num_commits: int) -> dict[str, object]:
        """Return the settings of a daemon that compacts the tables `names`, and observes only after a hook."""
        return {
            "defaults": {"mode": "act", "poll": "1h"},
            "tables": [
                {
                    "id": name,
                    "format": "hudi",
                    "path": str(self.folder / "tables" / name),
                    "options": self.options(name),
                    "services": {"compaction": {"trigger": {"num_commits": num_commits}}},
                }
                for name in names
            ],
        }


@functools.cache
def _original(workload: Workload) -> Path:
    """Write the original table, once for all figures of this process."""
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    atexit.register(shutil.rmtree, folder)
    command = [sys.executable, "-m", "bench.runs.small_tables", str(folder / "original"), workload]
    with (folder / "writer.log").open("wb") as log:
        subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
    return folder / "original"


@contextmanager
def small_tables(workload: Workload = Workload.REGIONS) -> Iterator[SmallTables]:
    """Provide tables for as long as the context is open."""
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    zookeeper = ZooKeeper(folder / "zookeeper")
    try:
        while not zookeeper.ready():
            if zookeeper.process.exit_code is not None:
                raise RuntimeError(f"ZooKeeper is gone: {zookeeper.process.last_words()}")
            time.sleep(0.05)
        yield SmallTables(folder, zookeeper, workload)
    finally:
        zookeeper.stop()
        shutil.rmtree(folder)


def main() -> None:
    """Write the original table with the demo's writer."""
    from lakewarden.demo.formats.hudi.writer import BatchCommitter, start_spark  # noqa: PLC0415
    from lakewarden.demo.writers import orders  # noqa: PLC0415 - imports pyspark

    path, workload = Path(sys.argv[1]), Workload(sys.argv[2])
    options = {
        **table_options("small", kind=TableType.MOR, workload=workload),
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    writer = BatchCommitter(start_spark(), path=path, options=options)
    batches = {Workload.REGIONS: orders.batches, Workload.DAYS: orders.days}[workload]
    for number, rows in zip(range(1, COMMITS[workload] + 1), batches(seed=0), strict=False):
        writer.commit(number, rows)


if __name__ == "__main__":
    main()
