"""Reads a Paimon table with a primary key by its spec: JSON, Avro by fastavro and Parquet by pyarrow.

It uses no code of Paimon, for Paimon has compacted the table, and no code of Lakewarden's own readers, for these are
under test. Of each key of a bucket, the row with the highest sequence number counts.

Source: Paimon's table spec, "Snapshot", "Manifest" and "DataFile".
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakewarden.demo.formats.paimon.writer import EXPIRED
from lakewarden.demo.writers.orders import Row
from live.paimon.avro import records

_ADDED = 0
_GONE = (1, 3)
"""The kinds of rows that take a row away: the state before an update, and a deletion."""

_MARKS = ("_SEQUENCE_NUMBER", "_VALUE_KIND")
"""The columns that a data file has only if the table has a key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Content:
    """What a snapshot holds: its data files by name with their levels, and the names of all files that it needs."""

    data: Mapping[str, int]
    needed: Collection[str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The rows of a snapshot by key, and the keys that are in several buckets."""

    rows: Mapping[str, Row]
    twice: Collection[str] = field(default=())


class PlainReader:
    """Reads one table. It keeps what it has read of data files, which never change.

    `key` is the column by which rows of a bucket replace each other, None if the table has no key. The other defaults
    are those of the demo's orders.
    """

    def __init__(
        self, folder: Path, *, key: str | None = "order_id", columns: Sequence[str] = ("order_id", "region", "version")
    ) -> None:
        self._folder = folder
        self._key = key
        self._columns = [*columns, *(_MARKS if key else ())]
        self._read: dict[str, list[Mapping[str, Any]]] = {}
        self._places: dict[str, Path] = {}

    def snapshots(self) -> dict[int, Mapping[str, Any]]:
        """Return the snapshots that are there, by their numbers. One that goes away meanwhile is left out."""
        found = {}
        for file in (self._folder / "snapshot").glob("snapshot-*"):
            try:
                snapshot = json.loads(file.read_text())
            except FileNotFoundError:
                continue
            found[int(snapshot["id"])] = snapshot
        return dict(sorted(found.items()))

    def content(self, snapshot: Mapping[str, Any]) -> Content:
        """Return the files of a snapshot. Raises FileNotFoundError for a manifest that is gone."""
        needed: set[str] = set()
        times: Counter[tuple[Any, ...]] = Counter()
        for name in (snapshot["baseManifestList"], snapshot["deltaManifestList"]):
            needed.add(name)
            for entry in self._avro(name):
                needed.add(entry["_FILE_NAME"])
                for file in self._avro(entry["_FILE_NAME"]):
                    told = file["_FILE"]
                    key = (file["_PARTITION"], file["_BUCKET"], told["_LEVEL"], told["_FILE_NAME"])
                    times[key] += 1 if file["_KIND"] == _ADDED else -1
        if wrong := [key for key, count in times.items() if count not in (0, 1)]:
            raise ValueError(f"{len(wrong)} files of snapshot {snapshot['id']} are added or deleted twice: {wrong[:3]}")
        data = {str(name): int(level) for (*_, level, name), count in times.items() if count}
        return Content(data=data, needed={*needed, *data})

    def merged(self, snapshot: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """Return the rows of a snapshot as a query finds them. Raises FileNotFoundError for a file that is gone."""
        files = self.content(snapshot).data
        if self._key is None:
            return [row for name in files for row in self._rows_of(name)]
        newest: dict[tuple[str, Any], Mapping[str, Any]] = {}
        for name in files:
            bucket = self._bucket_of(name)
            for row in self._rows_of(name):
                place = (bucket, row[self._key])
                if place not in newest or row["_SEQUENCE_NUMBER"] > newest[place]["_SEQUENCE_NUMBER"]:
                    newest[place] = row
        return [row for row in newest.values() if row["_VALUE_KIND"] not in _GONE]

    def rows(self, snapshot: Mapping[str, Any]) -> Found:
        """Return the orders of a snapshot, without those of partitions that are long past.

        Raises FileNotFoundError for a file that is gone.
        """
        there = [row for row in self.merged(snapshot) if not row["region"].startswith(EXPIRED)]
        times = Counter(row["order_id"] for row in there)
        made = (Row(key=row["order_id"], partition=row["region"], value=row["version"]) for row in there)
        twice = {key for key, count in times.items() if count > 1}
        return Found(rows={row.key: row for row in made}, twice=twice)

    def files_there(self) -> set[str]:
        """Return the names of all files below the table's folder. Paimon gives no name twice."""
        return {file.name for file in self._folder.rglob("*") if file.is_file()}

    def _avro(self, name: str) -> Iterator[Mapping[str, Any]]:
        return records(self._folder / "manifest" / name)

    def _bucket_of(self, name: str) -> str:
        return str(self._place(name).parent.relative_to(self._folder))

    def _rows_of(self, name: str) -> list[Mapping[str, Any]]:
        if name not in self._read:
            self._read[name] = pq.ParquetFile(self._place(name)).read(columns=self._columns).to_pylist()
        return self._read[name]

    def _place(self, name: str) -> Path:
        if name not in self._places:
            self._places = {file.name: file for file in self._folder.glob("**/bucket-*/*")}
        if name not in self._places:
            raise FileNotFoundError(f"the data file {name} is gone")
        return self._places[name]
