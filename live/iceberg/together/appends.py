"""Writers without a JVM, by pyiceberg: they append in the ways in which engines append.

python -m live.iceberg.together.appends --table staged|branched|moving|streamed --directory DIR --record FILE
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from lakewarden.demo.writers.orders import Row
from lakewarden.demo.writers.writing import Committer, WritingTime, write_on
from live.iceberg.together.streams import RENAMED_BEFORE, STREAMS, Stream, batches, place
from live.iceberg.together.tables import BRANCH, PARTITIONS, Name, arrow, create, identifier, open_catalog

_ATTEMPTS = 5
_OVERTAKEN = "older than last sequence number"  # pyiceberg 0.12.0
_AHEAD = 20
"""So many batches lie in the table's folder before they are committed."""

MARKED_EVERY = 30
"""Every so many batches a sink commits. The others are of a job that keeps no marks. So a mark is
older than the `max_snapshot_age` of the suite when the sink looks for it."""

MARK = "kafka.connect.offsets.control-iceberg.cg-control-shop"
"""Iceberg's sink for Kafka Connect remembers in the summary of its newest snapshot what it has committed."""


class StagedCommitter:
    """Writes the files of a batch `_AHEAD` batches before the commit that adds them, into the table's own folder. The
    tasks of Kafka Connect do the same before their coordinator commits. Each `MARKED_EVERY`th batch is the commit of
    such a coordinator, which has just been started again: it commits anew what no mark says that it has committed.
    Fulfils `Committer`.
    """

    def __init__(self, directory: Path, stream: Stream) -> None:
        self._catalog = open_catalog(directory)
        self._stream = stream
        self._written: dict[int, list[str]] = {}

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Write the files of later batches, and commit those of this one. A sink also commits those of its earlier
        batches that it finds no mark of.
        """
        table = self._catalog.load_table(identifier(Name.STAGED))
        for later in range(batch, batch + _AHEAD):
            if later not in self._written:
                written = rows if later == batch else self._stream(later)
                self._written[later] = _write(table, written)
        if batch % MARKED_EVERY:
            table.add_files(self._written[batch], check_duplicate_files=False)
            return
        unknown = range(marked(table) + MARKED_EVERY, batch, MARKED_EVERY)
        again = [file for one in unknown for file in _write(table, self._stream(one))]
        mark = {MARK: json.dumps({"0": batch})}
        table.add_files([*again, *self._written[batch]], mark, check_duplicate_files=False)


class BranchedCommitter:
    """Appends to main and to a branch in turn. Fulfils `Committer`."""

    def __init__(self, directory: Path, _stream: Stream) -> None:
        self._catalog = open_catalog(directory)

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Append the rows to main or to the branch. The branch is created from the newest snapshot of main."""
        table = self._catalog.load_table(identifier(Name.BRANCHED))
        _, branch = place(Name.BRANCHED, batch)
        newest = table.current_snapshot()
        if branch == BRANCH and BRANCH not in table.metadata.refs and newest is not None:
            table.manage_snapshots().create_branch(newest.snapshot_id, BRANCH).commit()
            table.refresh()
        self._append(table, rows, branch)

    @staticmethod
    def _append(table: Table, rows: tuple[Row, ...], branch: str) -> None:
        """Append, and repeat it if another commit came first. For a commit to a branch, pyiceberg requires only that
        this branch has not moved. If anything was committed to another branch, the catalog refuses the commit, and
        pyiceberg does not try again.
        """
        for left in reversed(range(_ATTEMPTS)):
            try:
                table.append(arrow(rows), branch=branch)
            except ValueError as refused:
                if not left or _OVERTAKEN not in str(refused):
                    raise
                table.refresh()
            else:
                return


class MovingCommitter:
    """Appends to a table. The table is renamed, and the appends continue under its new name. In turn, a second table is
    filled under the old name. Fulfils `Committer`.
    """

    def __init__(self, directory: Path, _stream: Stream) -> None:
        self._directory = directory
        self._catalog = open_catalog(directory)

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        """Append the rows to one of the two tables. Before its batch, the table is renamed and the second one is
        created.
        """
        if batch < RENAMED_BEFORE:
            self._catalog.load_table(identifier(Name.MOVING)).append(arrow(rows))
            return
        self._rename()
        name, _ = place(Name.MOVING, batch)
        self._catalog.load_table(identifier(name)).append(arrow(rows))

    def _rename(self) -> None:
        try:
            self._catalog.load_table(identifier(Name.MOVED))
        except NoSuchTableError:
            self._catalog.rename_table(identifier(Name.MOVING), identifier(Name.MOVED))
        if not self._catalog.table_exists(identifier(Name.MOVING)):
            create(self._catalog, self._directory, Name.MOVING, folder="moving-again")


class PlainCommitter:
    """Appends to a table. Fulfils `Committer`."""

    def __init__(self, directory: Path, _stream: Stream) -> None:
        self._catalog = open_catalog(directory)

    def commit(self, _batch: int, rows: tuple[Row, ...]) -> None:
        """Append the rows."""
        self._catalog.load_table(identifier(Name.STREAMED)).append(arrow(rows))


_COMMITTERS: Mapping[Name, Callable[[Path, Stream], Committer]] = {
    Name.STAGED: StagedCommitter,
    Name.BRANCHED: BranchedCommitter,
    Name.MOVING: MovingCommitter,
    Name.STREAMED: PlainCommitter,
}


def marked(table: Table) -> int:
    """Return the batch in the newest mark, or 0. As Iceberg's `Coordinator` does (1.11.0), it goes from the newest
    snapshot from parent to parent, and finds nothing behind a snapshot that is gone.
    """
    one = table.current_snapshot()
    while one is not None:
        mark = None if one.summary is None else one.summary.additional_properties.get(MARK)
        if mark is not None:
            return int(json.loads(mark)["0"])
        one = None if one.parent_snapshot_id is None else table.snapshot_by_id(one.parent_snapshot_id)
    return 0


def _write(table: Table, rows: tuple[Row, ...]) -> list[str]:
    """Write one file for each partition of the rows, and return the paths."""
    by_partition: Mapping[str, tuple[Row, ...]] = {
        str(p): tuple(row for row in rows if row.partition == str(p)) for p in range(PARTITIONS)
    }
    folder, written = Path(table.location().removeprefix("file://")), []
    for partition, some in by_partition.items():
        if some:
            file = folder / "data" / f"p={partition}" / f"{uuid4()}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(arrow(some), file)
            written.append(str(file))
    return written


def main() -> int:
    """Append until told to stop. Returns 0 however many commits failed; the record has them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", type=Name, choices=tuple(_COMMITTERS), required=True, help="the kind of this writer")
    parser.add_argument("--directory", type=Path, required=True, help="the directory of the suite")
    parser.add_argument("--record", type=Path, required=True, help="where every batch and its ending is recorded")
    parser.add_argument("--every", type=float, default=2, metavar="SECONDS", help="the least time between two commits")
    asked = parser.parse_args()
    writing_time = WritingTime(None)
    stream = STREAMS[asked.table]
    committer = _COMMITTERS[asked.table](asked.directory, stream)
    write_on(committer, batches(stream), asked.record, writing_time, every=asked.every)
    return 0


if __name__ == "__main__":
    sys.exit(main())
