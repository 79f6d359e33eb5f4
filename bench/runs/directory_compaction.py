"""A directory of 5,000 small Parquet files: compacted in the warm pool, and rewritten by a new Spark application.

    python -m bench.runs.directory_compaction TARGET PARTITION ...      is that application

The application reads each partition, and writes it as one file beside: `spark.read.parquet(...).coalesce(1).write`. It
compares nothing, and puts nothing in the place of the old files.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from bench.figure import Figure, figure
from bench.runs.granting_pool import granting_pool
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId

_PARTITIONS, _FILES = 10, 500
_BRIEF = (2, 10)
_ROWS = 200
_AGE_SECONDS = 86_400


def measure(*, brief: bool = False) -> list[Figure]:
    """Compact two copies of one directory. A warm session has compacted another one before."""
    partitions, files = _BRIEF if brief else (_PARTITIONS, _FILES)
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        return [_compared(folder, partitions, files)]
    finally:
        shutil.rmtree(folder)


def _compared(folder: Path, partitions: int, files: int) -> Figure:
    for name, many in (("warm-up", _BRIEF), ("pooled", (partitions, files)), ("alone", (partitions, files))):
        _write(folder / name, *many)
    with granting_pool(folder / "pool", SparkProfile(formats=("directory",))) as pool:
        pool.carry_out([[_compaction(folder / "warm-up")]])
        ours = pool.carry_out([[_compaction(folder / "pooled")]])
    left = sum(1 for file in (folder / "pooled").rglob("part-*"))
    if left != partitions:
        raise RuntimeError(f"{left} files are left in {partitions} partitions")
    begun = time.monotonic()
    _run_alone(folder / "alone", folder / "rewritten", log=folder / "alone.log")
    baseline = time.monotonic() - begun
    return figure(
        "directory_compaction",
        ours,
        f"s for {partitions * files} files",
        judged="ratio",
        goal=(">=", 2),
        baseline=baseline,
        ratio=baseline / ours,
    )


def _compaction(place: Path) -> Assignment:
    return Assignment(
        run=RunId(place.name),
        epoch=1,
        table=TableId(place.name),
        format="directory",
        location=str(place),
        service=Service.COMPACTION,
        table_options={"restore_horizon": "0s"},
    )


def _write(table: Path, partitions: int, files: int) -> None:
    """Write a directory with the times of yesterday: one file, and copies of it."""
    then = time.time() - _AGE_SECONDS
    rows = pa.table({"id": list(range(_ROWS)), "what": [f"click {number}" for number in range(_ROWS)]})
    for partition in range(partitions):
        home = table / f"hour={partition:02}"
        home.mkdir(parents=True)
        first = home / "part-0-0"
        parquet.write_table(rows, first, store_schema=False)
        for number in range(1, files):
            shutil.copyfile(first, home / f"part-0-{number}")
        for path in (*home.iterdir(), home):
            os.utime(path, (then, then))


def _run_alone(table: Path, target: Path, *, log: Path) -> None:
    command = [sys.executable, "-m", "bench.runs.directory_compaction", str(target), *map(str, sorted(table.iterdir()))]
    with log.open("wb") as errors:
        subprocess.run(command, stdout=errors, stderr=errors, check=True)


def main() -> None:
    """Rewrite each partition in one application."""
    from lakewarden.executors.worker.session import Session  # noqa: PLC0415 - imports pyspark, for the process alone

    target, *partitions = sys.argv[1:]
    session = Session(SparkProfile(formats=("directory",)))
    with session.for_run(RunId("alone")) as spark:
        for partition in partitions:
            spark.read.parquet(partition).coalesce(1).write.parquet(f"{target}/{Path(partition).name}")
    session.stop()


if __name__ == "__main__":
    main()
