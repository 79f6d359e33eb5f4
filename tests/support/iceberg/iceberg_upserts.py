"""A job that writes upserts as Flink does, by Iceberg's own API and without Flink; and a reader of equality deletes.

A job knows the partition spec with which it was started, and goes on with it whatever the table's spec is by then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

_IDS = {"id": b"1", "p": b"2", "v": b"3"}
_TYPES = {"id": pa.int64(), "p": pa.int32(), "v": pa.string()}

Row = tuple[int, int, str]
"""Id, partition and value."""


@dataclass
class UpsertJob:
    """One job. `java` is an `org.apache.iceberg.Table`, which it refreshes before each commit, `spec` the id of the
    partition spec that it writes by; `places` are the names of that spec's fields.
    """

    jvm: Any
    java: Any
    folder: Path
    spec: int = 0
    places: Sequence[str] = ("p",)
    name: str = "job-1"
    branch: str = "main"
    checkpoints: int = 0

    def upsert(self, *rows: Row) -> None:
        """Commit a checkpoint that replaces the rows with these ids, or adds them."""
        self._checkpoint(rows, deleted=rows)

    def insert(self, *rows: Row) -> None:
        """Commit a checkpoint that adds rows alone."""
        self._checkpoint(rows, deleted=())

    def delete(self, *rows: Row) -> None:
        """Commit a checkpoint that deletes rows by their ids, and adds none."""
        self._checkpoint((), deleted=rows)

    def stage(self, *rows: Row, wap: str = "audit-1") -> int:
        """Commit rows to no branch, as `spark.wap.id` does. Return the snapshot."""
        self.java.refresh()
        known = {one.snapshotId() for one in self.java.snapshots()}
        commit = self.java.newAppend()
        for where, added in self._by_partition(rows).items():
            builder = self.jvm.org.apache.iceberg.DataFiles.builder(self._spec())
            commit = commit.appendFile(self._file(builder, where, added, tuple(_IDS)))
        commit.set("wap.id", wap).stageOnly().commit()
        self.java.refresh()
        [staged] = {one.snapshotId() for one in self.java.snapshots()} - known
        return int(staged)

    def _checkpoint(self, added: Sequence[Row], *, deleted: Sequence[Row]) -> None:
        self.java.refresh()
        self.checkpoints += 1
        commit = self.java.newRowDelta()
        if not deleted:
            commit = self.java.newAppend()
        for where, rows in self._by_partition(added).items():
            file = self._file(self.jvm.org.apache.iceberg.DataFiles.builder(self._spec()), where, rows, tuple(_IDS))
            commit = commit.addRows(file) if deleted else commit.appendFile(file)
        for where, rows in self._by_partition(deleted).items():
            builder = self.jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(self._spec())
            commit = commit.addDeletes(self._file(builder.ofEqualityDeletes(self._ints(1)), where, rows, ("id",)))
        commit.toBranch(self.branch)
        commit.set("flink.job-id", self.name)
        commit.set("flink.operator-id", "sink")
        commit.set("flink.max-committed-checkpoint-id", str(self.checkpoints))
        commit.commit()

    def _spec(self) -> Any:
        return self.java.specs().get(self.spec)

    def _by_partition(self, rows: Iterable[Row]) -> Mapping[str, list[Row]]:
        found: dict[str, list[Row]] = {}
        for row in rows:
            values = dict(zip(_IDS, row, strict=True))
            found.setdefault("/".join(f"{name}={values[name]}" for name in self.places), []).append(row)
        return found

    def _file(self, builder: Any, where: str, rows: Sequence[Row], columns: Sequence[str]) -> Any:
        fields = [pa.field(name, _TYPES[name], metadata={"PARQUET:field_id": _IDS[name]}) for name in columns]
        values = [pa.array([dict(zip(_IDS, row, strict=True))[one.name] for row in rows], one.type) for one in fields]
        path = self.folder / f"{uuid4()}.parquet"
        pq.write_table(pa.Table.from_arrays(values, schema=pa.schema(fields)), path)
        builder = builder.withPath(str(path)).withFormat("parquet")
        builder = builder.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(rows))
        return (builder.withPartitionPath(where) if where else builder).build()

    def _ints(self, *numbers: int) -> Any:
        array = self.jvm.java.lang.reflect.Array.newInstance(self.jvm.java.lang.Integer.TYPE, len(numbers))
        for at, number in enumerate(numbers):
            self.jvm.java.lang.reflect.Array.setInt(array, at, number)
        return array


class _Live(NamedTuple):
    """A file of the current snapshot: `place` is its partition under its spec, `everywhere` whether that has none."""

    path: str
    content: DataFileContent
    sequence: int
    place: tuple[int, str]
    everywhere: bool


def rows_by_the_spec(table: Table, snapshot: Snapshot | None = None) -> list[Row]:
    """Return the rows of a snapshot, by default of the table's current one, sorted.

    Its manifests are read by pyiceberg, its files by pyarrow, and its deletes are applied as the table spec says:
    pyiceberg itself reads no equality deletes.
    """
    live = list(_live(table, snapshot))
    positions = _positions(one for one in live if one.content is DataFileContent.POSITION_DELETES)
    equal = [(one, set(_read(one.path, "id")["id"].to_pylist())) for one in live if _is_equality(one)]
    found: list[Row] = []
    for one in live:
        if one.content is not DataFileContent.DATA:
            continue
        gone = set[int]().union(*(ids for delete, ids in equal if _reaches(delete, one)))
        deleted = {position for position, sequence in positions.get(one.path, ()) if sequence >= one.sequence}
        columns = _read(one.path, *_IDS)
        rows = zip(*(columns[name].to_pylist() for name in _IDS), strict=True)
        found += [row for at, row in enumerate(rows) if at not in deleted and row[0] not in gone]
    return sorted(found)


def delete_files(table: Table) -> dict[str, int]:
    """Return the paths of the live delete files, with their data sequence numbers."""
    return {one.path: one.sequence for one in _live(table) if one.content is not DataFileContent.DATA}


def _live(table: Table, snapshot: Snapshot | None = None) -> Iterator[_Live]:
    snapshot = snapshot or table.current_snapshot()
    assert snapshot is not None
    for manifest in snapshot.manifests(table.io):
        spec = table.specs()[manifest.partition_spec_id]
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            yield _Live(
                path=re.sub(r"^file:/*", "/", file.file_path),
                content=file.content,
                sequence=entry.sequence_number or 0,
                place=(spec.spec_id, repr([file.partition[at] for at in range(len(spec.fields))])),
                everywhere=spec.is_unpartitioned(),
            )


def _is_equality(one: _Live) -> bool:
    return one.content is DataFileContent.EQUALITY_DELETES


def _reaches(delete: _Live, file: _Live) -> bool:
    return delete.sequence > file.sequence and (delete.everywhere or delete.place == file.place)


def _positions(deletes: Iterable[_Live]) -> Mapping[str, list[tuple[int, int]]]:
    """Return the deleted positions of each file, with the sequence numbers of the deletes."""
    found: dict[str, list[tuple[int, int]]] = {}
    for one in deletes:
        columns = _read(one.path, "file_path", "pos")
        for path, at in zip(columns["file_path"].to_pylist(), columns["pos"].to_pylist(), strict=True):
            found.setdefault(re.sub(r"^file:/*", "/", path), []).append((at, one.sequence))
    return found


def _read(path: str, *columns: str) -> pa.Table:
    return pq.ParquetFile(path).read(columns=list(columns))
