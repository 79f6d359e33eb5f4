"""The rows of a Hudi table as a release's own Spark reader finds them, printed as JSON: the second opinion.

python -m live.hudi.several.spark_reader --release 1.1.1 --path DIRECTORY
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from lakewarden.demo.daemon import environment
from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import small_spark
from lakewarden.executors.worker import bundles
from live.hudi.several.writer import CONF
from tests.support.hudi.hudi_bundles import HUDI_BUNDLES

_MARK = "rows: "
_WITHIN_SECONDS = 300


def rows_by_spark(table: Path, *, release: str) -> Mapping[str, Row]:
    """Return the rows by key, read in a process of its own. Raises ValueError for a key found twice and for output that
    is no answer, and subprocess.TimeoutExpired.
    """
    command = [sys.executable, "-m", "live.hudi.several.spark_reader", "--release", release, "--path", str(table)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment(), timeout=_WITHIN_SECONDS
    )
    answer = next((line for line in done.stdout.splitlines() if line.startswith(_MARK)), None)
    if answer is None:
        raise ValueError(f"Spark with Hudi {release} found no rows: {done.stderr[-800:]}")
    rows: dict[str, Row] = {}
    for key, partition, value in json.loads(answer.removeprefix(_MARK)):
        if key in rows:
            raise ValueError(f"{key} was found twice")
        rows[key] = Row(key=key, partition=partition, value=value)
    return rows


def main() -> int:
    """Read once, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--release", choices=HUDI_BUNDLES, required=True, help="of Hudi")
    parser.add_argument("--path", type=Path, required=True, help="where the table is")
    asked = parser.parse_args()
    spark = small_spark([bundles.bring(HUDI_BUNDLES[asked.release])], CONF)
    found = spark.read.format("hudi").load(f"file://{asked.path}").select("order_id", "region", "version").collect()
    print(_MARK + json.dumps([[row.order_id, row.region, row.version] for row in found]))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
