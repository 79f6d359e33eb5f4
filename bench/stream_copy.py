"""Small files of a copy-on-write table joined as they are (`layout: none`), and decoded and written anew.

python -m bench.stream_copy DIRECTORY      writes the table
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
from bench.hands import Hands, hands
from lakewarden.executors.contract import Assignment
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId

_FILES = 24
_ROWS_A_FILE = 40_000
_COLUMNS = 16
_PAIRS = 3


def measure() -> list[Figure]:
    """Cluster copies of one table of 24 small files by both layouts, in turns, in the same warm session."""
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        original = folder / "original"
        with (folder / "writer.log").open("wb") as log:
            command = [sys.executable, "-m", "bench.stream_copy", str(original)]
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=True)
        with hands(folder / "pool", SparkProfile(formats=("hudi",), memory="2g")) as pool:
            seconds: dict[str, list[float]] = {"none": [], "linear": []}
            for number in range(_PAIRS + 1):
                for layout, taken in seconds.items():
                    taken.append(_clustered(pool, original, folder / f"{layout}-{number}", layout))
        copied, decoded = (statistics.median(taken[1:]) for taken in seconds.values())  # the first pair warms up
    finally:
        shutil.rmtree(folder)
    unit = f"s for {_FILES} files of {_ROWS_A_FILE * _COLUMNS / 1e6:.1f} M values"
    return [
        figure("stream_copy", copied, unit, judged="ratio", goal=(">=", 2), baseline=decoded, ratio=decoded / copied)
    ]


def _clustered(pool: Hands, original: Path, path: Path, layout: str) -> float:
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

    spark = start_spark()
    options: dict[str, Any] = {
        **table_options("copied", kind=TableType.COW, workload=Workload.REGIONS),
        "hoodie.datasource.write.operation": "bulk_insert",
        "hoodie.bulkinsert.shuffle.parallelism": "1",
        "hoodie.clean.automatic": "false",
        "hoodie.archive.automatic": "false",
    }
    for number in range(_FILES):
        rows = spark.range(number * _ROWS_A_FILE, (number + 1) * _ROWS_A_FILE, numPartitions=1).select(
            of.format_string("o%d", "id").alias("order_id"),
            of.lit(1).alias("version"),
            of.lit("p").alias("region"),
            *(of.sha1(of.concat(of.lit(f"{column}-"), "id")).alias(f"c{column}") for column in range(_COLUMNS)),
        )
        rows.write.format("hudi").options(**options).mode("append").save(sys.argv[1])
    spark.stop()


if __name__ == "__main__":
    main()
