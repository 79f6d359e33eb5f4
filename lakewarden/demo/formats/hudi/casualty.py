"""A Hudi writer that dies: it begins one commit into a partition of its own, and is killed with its JVM as soon as
the first data file is there. What it leaves behind is for a rollback to undo.

    python -m lakewarden.demo.formats.hudi.casualty --path DIRECTORY --options FILE --partition NAME
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

from lakewarden.demo.formats.hudi.batches import BatchCommitter
from lakewarden.demo.formats.hudi.options import TableType, Workload, table_options
from lakewarden.demo.formats.hudi.writer import start_spark
from lakewarden.demo.writers.record import Row

_ROWS = 2000


def die_with_first_file(folder: Path) -> None:
    """Kill this process and its JVM, which is of the same group, when a data file shows up in the folder."""
    while not any(folder.glob("*.parquet")):
        time.sleep(0.005)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> int:
    """Begin a commit; whoever gets a return code from here has seen the murder fail."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="where the table is")
    parser.add_argument("--table", default="orders", help="its name")
    parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="its type, mor or cow")
    parser.add_argument("--options", type=Path, required=True, help="what its writers must set: a JSON object")
    parser.add_argument("--partition", required=True, help="where nobody else writes")
    asked = parser.parse_args()
    options = {
        **table_options(asked.table, kind=asked.table_type, workload=Workload.DAYS),
        **json.loads(asked.options.read_text(encoding="utf-8")),
    }
    rows = tuple(Row(key=f"{asked.partition}-{n}", partition=asked.partition, value=1) for n in range(_ROWS))
    committer = BatchCommitter(start_spark(), path=asked.path, options=options)
    threading.Thread(target=die_with_first_file, args=(asked.path / asked.partition,), daemon=True).start()
    committer.commit(1, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
