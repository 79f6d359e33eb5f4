"""A Hudi writer that is killed: it begins one commit into a partition of its own. It kills itself and its JVM as soon
as the first data file exists. A rollback must undo what it leaves behind.

    python -m lakewarden.demo.formats.hudi.killed_writer --path DIRECTORY --options FILE --partition NAME
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options
from lakewarden.demo.formats.hudi.writer import BatchCommitter, start_spark
from lakewarden.demo.writers.orders import Row

_ROWS = 2000


def die_with_first_file(folder: Path) -> None:
    """Kill this process and its JVM, which is in the same process group, when a data file appears in the folder."""
    while not any(folder.glob("*.parquet")):
        time.sleep(0.005)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> int:
    """Begin a commit. If this returns an exit code, the process was not killed as it should have been."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="the folder of the table")
    parser.add_argument("--table", default="orders", help="its name")
    parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="its type, mor or cow")
    parser.add_argument(
        "--options", type=Path, required=True, help="the options that its writers must set: a JSON object"
    )
    parser.add_argument("--partition", required=True, help="a partition without other writers")
    arguments = parser.parse_args()
    options = {
        **table_options(arguments.table, kind=arguments.table_type, workload=Workload.DAYS),
        **json.loads(arguments.options.read_text(encoding="utf-8")),
    }
    rows = tuple(Row(key=f"{arguments.partition}-{n}", partition=arguments.partition, value=1) for n in range(_ROWS))
    committer = BatchCommitter(start_spark(), path=arguments.path, options=options)
    threading.Thread(target=die_with_first_file, args=(arguments.path / arguments.partition,), daemon=True).start()
    committer.commit(1, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
