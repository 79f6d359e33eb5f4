"""An incremental reader: it reads what was appended between the snapshot where it stopped and the newest one.

    python -m live.iceberg.together.incremental --directory DIR --queries FILE

It begins with the rows of the newest snapshot. From then on it reads as Iceberg's own `IncrementalAppendScan` does: the
files that each snapshot of the operation `append` added.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, ManifestEntryStatus, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Snapshot

from live.iceberg.together.tables import Name, identifier, open_catalog

_PAUSE_SECONDS = 3.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One reading of the table: the ids that were new, or why it failed."""

    ids: tuple[int, ...] = ()
    failure: str = ""


class HistoryGoneError(Exception):
    """The snapshot where the reader stopped is no longer an ancestor of the newest one."""


class IncrementalReader:
    """Remembers the snapshot up to which it has read."""

    def __init__(self) -> None:
        self._read_up_to: int | None = None

    def read(self, table: Table) -> Reading:
        """Return what was appended since the last reading. Raises HistoryGoneError, and any error of the foreign
        reader. After an error the reader stays where it was.
        """
        newest = table.current_snapshot()
        if newest is None or newest.snapshot_id == self._read_up_to:
            return Reading()
        if self._read_up_to is None:
            self._read_up_to = newest.snapshot_id
            return Reading(ids=tuple(id_ for manifest in newest.manifests(table.io) for id_ in _ids(table, manifest)))
        appends = [
            one for one in self._since(table, newest) if one.summary and one.summary.operation is Operation.APPEND
        ]
        ids = tuple(id_ for one in appends for id_ in _added(table, one))
        self._read_up_to = newest.snapshot_id
        return Reading(ids=ids)

    def _since(self, table: Table, newest: Snapshot) -> Iterator[Snapshot]:
        one: Snapshot | None = newest
        while one is not None and one.snapshot_id != self._read_up_to:
            yield one
            parent = one.parent_snapshot_id
            one = None if parent is None else table.snapshot_by_id(parent)
            if one is None:
                raise HistoryGoneError(f"snapshot {parent} is gone; the reader stopped at {self._read_up_to}")


def _added(table: Table, snapshot: Snapshot) -> Iterator[int]:
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            yield from _ids(table, manifest, status=ManifestEntryStatus.ADDED)


def _ids(table: Table, manifest: ManifestFile, *, status: ManifestEntryStatus | None = None) -> Iterator[int]:
    """Yield the ids in a manifest's data files: by default of all that are not deleted, else of those of a status."""
    for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
        if entry.data_file.content is DataFileContent.DATA and status in (None, entry.status):
            path = entry.data_file.file_path.removeprefix("file://")
            yield from pq.ParquetFile(path).read(columns=["id"])["id"].to_pylist()


def read_readings(path: Path) -> Sequence[Reading]:
    """Return what a reader has recorded so far. A missing file means that the reader has not begun."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return []
    found: list[Mapping[str, object]] = [json.loads(line) for line in lines if line.endswith("\n")]
    return [Reading(ids=tuple(one["ids"]), failure=str(one["failure"])) for one in found]  # type: ignore[arg-type]


def main() -> int:
    """Read until told to stop. Returns 0 however many readings failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, required=True, help="the directory of the suite")
    parser.add_argument("--queries", type=Path, required=True, help="where every reading is recorded")
    asked = parser.parse_args()
    stopping: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stopping.append(number)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    catalog, reader = open_catalog(asked.directory), IncrementalReader()
    with asked.queries.open("a", encoding="utf-8") as output:
        last = False
        while not last:
            last = bool(stopping) or os.getppid() != parent
            try:
                reading = reader.read(catalog.load_table(identifier(Name.STAGED)))
            except Exception as error:  # noqa: BLE001 - the edge of the reader's loop: recorded, and counted as a failure
                reading = Reading(failure=f"{type(error).__name__}: {error}")
            output.write(json.dumps(asdict(reading)) + "\n")
            output.flush()
            if not last:
                _wait(stopping)
    return 0


def _wait(stopping: Sequence[int]) -> None:
    until = time.monotonic() + _PAUSE_SECONDS
    while not stopping and time.monotonic() < until:
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
