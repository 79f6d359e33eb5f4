"""Ten small tables compacted one after another: in the warm pool, and in one new Spark application for all of them.

    python -m bench.runs.one_application TABLE...      compacts the tables, and ends

The application starts a session, calls Hudi's procedure `run_compaction` on each table, and ends, as a cron job would,
or as Hudi's `HoodieMultiTableServicesMain` does with its tables. It takes no lock and looks at no writer.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figure import Figure, figure
from bench.runs.granting_pool import assignment_of, granting_pool
from bench.runs.small_tables import small_tables
from lakewarden.executors.profile import SparkProfile

_TABLES, _WARMING_UP = 10, 5
_BRIEF = (2, 1)


def measure(*, brief: bool = False) -> list[Figure]:
    """Compact two sets of ten tables, after a warm-up of the pool."""
    count, warming_up = _BRIEF if brief else (_TABLES, _WARMING_UP)
    with small_tables() as tables:
        with granting_pool(tables.folder / "pool", SparkProfile(formats=("hudi",))) as pool:
            pool.carry_out([[assignment_of(tables, tables.copy(f"warm-up-{one}"))] for one in range(warming_up)])
            ours = pool.carry_out([[assignment_of(tables, tables.copy(f"pooled-{one}"))] for one in range(count)])
        baseline = _in_one_application(
            [tables.copy(f"together-{one}") for one in range(count)], log=tables.folder / "together.log"
        )
    unit = f"s for {count} tables"
    return [
        figure("one_application", ours, unit, judged="ratio", goal=(">=", 1), baseline=baseline, ratio=baseline / ours)
    ]


def _in_one_application(tables: Sequence[Path], *, log: Path) -> float:
    """Return the seconds from the start of the application to its end. Raises RuntimeError if one is not compacted."""
    begun = time.monotonic()
    with log.open("wb") as said:
        command = [sys.executable, "-m", "bench.runs.one_application", *map(str, tables)]
        ended = subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, check=False)
    taken = time.monotonic() - begun
    if ended.returncode or not all(map(_is_compacted, tables)):
        raise RuntimeError(f"the application ended with {ended.returncode}: {log.read_text()[-2000:]}")
    return taken


def _is_compacted(table: Path) -> bool:
    """Whether the timeline has a compaction: a completed `commit` of a merge-on-read table is one."""
    return any((table / ".hoodie").rglob("*.commit"))


def main() -> None:
    """Compact each table of the command line."""
    from lakewarden.demo.writers.writing import small_spark  # noqa: PLC0415 - imports pyspark
    from lakewarden.executors.worker import bundles  # noqa: PLC0415

    spark = small_spark(
        bundles.jars(("hudi",)),
        {
            "spark.master": SparkProfile().master,
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        },
    )
    for table in sys.argv[1:]:
        spark.sql(
            f"CALL run_compaction(op => 'scheduleAndExecute', path => '{table}', "
            "options => 'hoodie.compact.inline.max.delta.commits=1')"
        ).collect()
    spark.stop()


if __name__ == "__main__":
    main()
