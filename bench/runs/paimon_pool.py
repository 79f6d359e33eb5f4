"""Ten small Paimon tables compacted one after another: in the warm pool, and with a new session for each.

python -m bench.runs.paimon_pool FOLDER      writes the original table
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.figure import Figure
from bench.runs.warm_or_alone import compared
from lakewarden.executors.contract import Assignment
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId

_COMMITS = 6
_OPTIONS = {"write-only": "true"}


def measure(*, brief: bool = False) -> list[Figure]:
    """Compact two sets of ten tables. Each is a copy of one table with a primary key, three partitions of two buckets,
    and six commits of level 0.
    """
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    warehouse = folder / "shop.db"
    try:
        command = [sys.executable, "-m", "bench.runs.paimon_pool", str(warehouse / "original")]
        with (folder / "writer.log").open("wb") as log:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
        return [
            compared(
                "paimon_pool",
                "paimon",
                lambda name: _compaction(Path(shutil.copytree(warehouse / "original", warehouse / name))),
                folder=folder,
                brief=brief,
            )
        ]
    finally:
        shutil.rmtree(folder)


def _compaction(table: Path) -> Assignment:
    return Assignment(
        run=RunId(table.name),
        epoch=1,
        table=TableId(table.name),
        format="paimon",
        location=str(table),
        service=Service.COMPACTION,
    )


def main() -> None:
    """Write the original table as the demo's writer does."""
    from lakewarden.demo.formats.paimon.writer import Core, StreamCommitter  # noqa: PLC0415
    from lakewarden.demo.writers import orders  # noqa: PLC0415

    core = Core()
    writer = StreamCommitter(core, Path(sys.argv[1]), options=_OPTIONS)
    for number, rows in zip(range(1, _COMMITS + 1), orders.batches(seed=0), strict=False):
        writer.commit(number, rows)
    core.close()


if __name__ == "__main__":
    main()
