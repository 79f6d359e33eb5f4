"""Small files of a copy-on-write table, joined without decoding (`layout: none`), and decoded and written anew.

python -m bench.runs.stream_copy DIRECTORY FILES ROWS_A_FILE      writes the table
"""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench.figure import Figure, figure
from bench.runs.granting_pool import GrantingPool, granting_pool
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId

_FILES, _ROWS_A_FILE, _PAIRS = 24, 40_000, 3
_BRIEF = (3, 100, 1)
_COLUMNS = 16


def measure(*, brief: bool = False) -> list[Figure]:
    """Cluster copies of one table of 24 small files by both layouts, in turn, in the same warm session."""
    files, rows, pairs = _BRIEF if brief else (_FILES, _ROWS_A_FILE, _PAIRS)
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        original = folder / "original"
        with (folder / "writer.log").open("wb") as log:
            command = [sys.executable, "-m", "bench.runs.stream_copy", str(original), str(files), str(rows)]
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
        with granting_pool(folder / "pool", SparkProfile(formats=("hudi",), memory="2g")) as pool:
            seconds: dict[str, list[float]] = {"none": [], "linear": []}
            for number in range(pairs + 1):
                for layout, taken in seconds.items():
                    taken.append(_clustered(pool, original, folder / f"{layout}-{number}", layout))
        copied, decoded = (statistics.median(taken[1:]) for taken in seconds.values())  # the first pair is the warm-up
    finally:
        shutil.rmtree(folder)
    unit = f"s for {files} files of {rows * _COLUMNS / 1e6:.2g} M values"
    return [
        figure("stream_copy", copied, unit, judged="ratio", goal=(">=", 2), baseline=decoded, ratio=decoded / copied)
    ]


def _clustered(pool: GrantingPool, original: Path, path: Path, layout: str) -> float:
    shutil.copytree(original, path)
    options = {"layout": layout, "untouched_for": "0s", "small_file_limit": "100MiB"}
    run = Assignment(
        run=RunId(path.name),
        epoch=1,
        table=TableId(path.name),
        format="hudi",
        location=str(path),
        service=Service.CLUSTERING,
        table_options={},
        service_options=options,
    )
    taken = pool.carry_out([[run]])
    shutil.rmtree(path)
    return taken


def main() -> None:
    """Write the table: one small file with each commit."""
    from pyspark.sql import functions as of  # noqa: PLC0415 - for the process alone

    from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options  # noqa: PLC0415
    from lakewarden.demo.formats.hudi.writer import start_spark  # noqa: PLC0415

    path, files, rows_a_file = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    spark = start_spark()
    demos = table_options("copied", kind=TableType.COW, workload=Workload.REGIONS)
    options: dict[str, Any] = {
        **{key: value for key, value in demos.items() if "bucket" not in key},
        "hoodie.index.type": "SIMPLE",  # the files of buckets are not clustered
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    for number in range(files):
        rows = spark.range(number * rows_a_file, (number + 1) * rows_a_file, numPartitions=1).select(
            of.format_string("o%d", "id").alias("order_id"),
            of.lit(1).alias("version"),
            of.lit("p").alias("region"),
            *(of.sha1(of.concat(of.lit(f"{column}-"), "id")).alias(f"c{column}") for column in range(_COLUMNS)),
        )
        rows.write.format("hudi").options(**options).mode("append").save(path)
    spark.stop()


if __name__ == "__main__":
    main()
