"""Small real Hudi tables with work for services: one is written, and copied as often as it is needed.

python -m bench.small_tables DIRECTORY HOST:PORT WORKLOAD      writes the one
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options
from lakewarden.demo.zookeeper import ZooKeeper

COMMITS = {Workload.REGIONS: 4, Workload.DAYS: 6}


class SmallTables:
    """A ZooKeeper, and copies of a merge-on-read table: of regions with 3 file groups and 3 rounds of log files, or of
    days with 3 small files each and a few log files.
    """

    def __init__(self, folder: Path, zookeeper: ZooKeeper, workload: Workload) -> None:
        self.folder = folder
        self._zookeeper = zookeeper
        self._original = folder / "original"
        command = [sys.executable, "-m", "bench.small_tables", str(self._original), workload]
        with (folder / "writer.log").open("wb") as log:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)

    def copy(self, name: str, *, into: str = "tables") -> Path:
        """Copy the table, with the files' times."""
        return Path(shutil.copytree(self._original, self.folder / into / name))

    def options(self, name: str) -> dict[str, Any]:
        """Return the options of the table `name`: its lock, which no writer of a copy has ever taken."""
        lock = {"provider": "zookeeper", "url": self._zookeeper.address, "base_path": "/hudi", "lock_key": name}
        return {"lock": lock, "lock_proof": "trusted"}

    def served_as(self, names: Sequence[str], *, num_commits: int) -> dict[str, object]:
        """Return the settings of a daemon that compacts the tables `names`, and looks only when it is told to."""
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


@contextmanager
def small_tables(workload: Workload = Workload.REGIONS) -> Iterator[SmallTables]:
    """Provide tables for as long as the bracket is open."""
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
    from lakewarden.demo.formats.hudi.batches import BatchCommitter  # noqa: PLC0415
    from lakewarden.demo.formats.hudi.writer import start_spark  # noqa: PLC0415
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
