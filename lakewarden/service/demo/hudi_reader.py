"""The reader of a Hudi table: hudi-rs, which shares no code with Hudi's Java, nor with anything that wrote or serviced
the table.

    python -m lakewarden.service.demo.hudi_reader --path DIRECTORY --record FILE --queries FILE
"""

from __future__ import annotations

import argparse
import re
import sys
from functools import partial
from pathlib import Path

from hudi import HudiReadOptions, HudiTable

from lakewarden.executors.demo.record import Row
from lakewarden.service.demo.reader import Snapshot, add_arguments, read_on

_COLUMNS = ("order_id", "region", "version")
_COMPLETED_IS_GONE = re.compile(r"\.hoodie/timeline/\d+_\d+\.[a-z]+ not found")


def read_snapshot(path: Path, *, as_of: str | None = None) -> Snapshot:
    """Return what a snapshot query finds, now or as of an instant, and how many log files it has to merge.

    Raises ValueError for a key found twice, and whatever hudi-rs raises.
    """
    table = HudiTable(str(path))
    options = HudiReadOptions() if as_of is None else HudiReadOptions().with_as_of_timestamp(as_of)
    log_files = sum(len(part.log_file_names) for part in table.get_file_slices(options))
    rows: dict[str, Row] = {}
    for batch in table.read(options):
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for key, partition, value in zip(*columns, strict=True):
            if key in rows:
                raise ValueError(f"{key} was found twice")
            rows[key] = Row(key=key, partition=partition, value=value)
    return Snapshot(rows=rows, counted={"log_files": log_files})


def was_archived_meanwhile(error: Exception) -> bool:
    """Whether a query has found an instant when it listed the timeline, and not any more when it opened it.

    Whoever archives a Hudi table does that to a query now and then (docs/hudi.md); asked again, it succeeds.
    """
    return _COMPLETED_IS_GONE.search(str(error)) is not None


def main() -> int:
    """Read until told to stop; returns 0 however many queries failed: the record of the queries says."""
    parser = argparse.ArgumentParser(description="query a Hudi table all the time")
    parser.add_argument("--path", type=Path, required=True, help="where the table is")
    add_arguments(parser)
    asked = parser.parse_args()
    read_on(partial(read_snapshot, asked.path), asked, passes=was_archived_meanwhile)
    return 0


if __name__ == "__main__":
    sys.exit(main())
