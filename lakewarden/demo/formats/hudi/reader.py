"""The reader of a Hudi table: hudi-rs, which shares no code with Hudi's Java, nor with anything that wrote or serviced
the table.

    python -m lakewarden.demo.formats.hudi.reader --path DIRECTORY --record FILE --queries FILE
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hudi import HudiReadOptions, HudiTable

from lakewarden.demo.reader import Snapshot, add_arguments, read_on
from lakewarden.demo.writers.record import Row

_COLUMNS = ("order_id", "region", "version")
_METADATA_OF_TWO_RELEASES = re.compile(r"reconcile: column '\w+Metadata'")
_COMPLETED_IS_GONE = re.compile(r"\.hoodie/timeline/\d+_\d+\.[a-z]+ not found")


def read_snapshot(path: Path, *, as_of: str | None = None) -> Snapshot:
    """Return what a snapshot query finds, now or as of an instant, and how many log files it has to merge.

    hudi-rs 0.5 cannot read a metadata table that a release before 1.1 and a later one write to: their records have
    different schemas (run). Then the files are listed instead. Raises ValueError for a key found twice, and whatever
    hudi-rs raises.
    """
    try:
        return _read(path, as_of)
    except Exception as error:
        if not _METADATA_OF_TWO_RELEASES.search(str(error)):
            raise
    with without_metadata_table(path) as listed:
        return _read(listed, as_of)


@contextlib.contextmanager
def without_metadata_table(path: Path) -> Iterator[Path]:
    """Show a table as it would be without its metadata table: a folder of links, with properties of its own."""
    with tempfile.TemporaryDirectory(prefix="lakewarden-listed-") as folder:
        shown = Path(folder)
        (shown / ".hoodie").mkdir()
        for entry in (*path.iterdir(), *(path / ".hoodie").iterdir()):
            name = entry.relative_to(path)
            if name.parts != (".hoodie",) and name.name not in ("metadata", "hoodie.properties"):
                (shown / name).symlink_to(entry.absolute())
        properties = (path / ".hoodie" / "hoodie.properties").read_text(encoding="utf-8").splitlines()
        kept = [line for line in properties if not line.startswith("hoodie.table.metadata.partitions")]
        (shown / ".hoodie" / "hoodie.properties").write_text("\n".join(kept), encoding="utf-8")
        yield shown


def _read(path: Path, as_of: str | None) -> Snapshot:
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
