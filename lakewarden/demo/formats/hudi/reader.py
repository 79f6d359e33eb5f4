"""The reader of a Hudi table: hudi-rs, which shares no code with Hudi's Java, nor with the writer or the services of
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

from lakewarden.demo.reader import TableRows, add_arguments, read_on
from lakewarden.demo.writers.orders import Row

_COLUMNS = ("order_id", "region", "version")
_METADATA_OF_TWO_RELEASES = re.compile(r"reconcile: column '\w+Metadata'")
_COMPLETED_IS_GONE = re.compile(r"\.hoodie/timeline/\d+_\d+\.[a-z]+ not found")


def read_snapshot(path: Path, *, as_of: str | None = None) -> TableRows:
    """Return the rows of a snapshot query, now or as of an instant, and how many log files it must merge.

    hudi-rs 0.5 cannot read a metadata table that both a release before 1.1 and a later one have written to: their
    records have different schemas (run). In that case the files are listed instead. Raises ValueError for a key found
    twice, and any error of hudi-rs.
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
    """Provide the table as it would be without its metadata table: a folder of links, with properties of its own."""
    with tempfile.TemporaryDirectory(prefix="lakewarden-listed-") as folder:
        view = Path(folder)
        (view / ".hoodie").mkdir()
        for entry in (*path.iterdir(), *(path / ".hoodie").iterdir()):
            name = entry.relative_to(path)
            if name.parts != (".hoodie",) and name.name not in ("metadata", "hoodie.properties"):
                (view / name).symlink_to(entry.absolute())
        properties = (path / ".hoodie" / "hoodie.properties").read_text(encoding="utf-8").splitlines()
        kept = [line for line in properties if not line.startswith("hoodie.table.metadata.partitions")]
        (view / ".hoodie" / "hoodie.properties").write_text("\n".join(kept), encoding="utf-8")
        yield view


def _read(path: Path, as_of: str | None) -> TableRows:
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
    return TableRows(rows=rows, counted={"log_files": log_files})


def was_archived_meanwhile(error: Exception) -> bool:
    """Whether a query found an instant when it listed the timeline, and no longer found it when it opened it.

    An archive of a Hudi table can cause this for a query (docs/hudi.md). The query succeeds when it is repeated.
    """
    return _COMPLETED_IS_GONE.search(str(error)) is not None


def main() -> int:
    """Read until told to stop. Returns 0 however many queries failed; the record of the queries has them."""
    parser = argparse.ArgumentParser(description="query a Hudi table all the time")
    parser.add_argument("--path", type=Path, required=True, help="the folder of the table")
    add_arguments(parser)
    arguments = parser.parse_args()
    read_on(partial(read_snapshot, arguments.path), arguments, passes=was_archived_meanwhile)
    return 0


if __name__ == "__main__":
    sys.exit(main())
