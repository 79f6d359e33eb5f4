"""Iceberg tables of a catalog in SQLite, which Spark, pyiceberg and Lakewarden share, and their writers' own record."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType

CATALOG = "lake"
"""Everybody's name of the catalog: its rows are keyed by it."""


_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "p", IntegerType(), required=False),
    NestedField(3, "v", StringType(), required=False),
)


_BY_P = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=IdentityTransform(), name="p"))


_ARROW = pa.schema([("id", pa.int64()), ("p", pa.int32()), ("v", pa.string())])


QUIET: Mapping[str, Any] = {"quiet_for": "1s", "quiet_intervals": 0, "distance": "0s"}
"""What takes minutes on a table of production is a second here."""


@dataclass
class Lake:
    """A catalog with its folder of tables. `spark` is a session of the writers' JVM that knows it."""

    folder: Path
    catalog: Catalog
    spark: Any
    names: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def settings(self) -> Mapping[str, Any]:
        """Return the catalog's settings as the configuration has them."""
        return {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{self.folder}/catalog.db",
            "warehouse": str(self.folder / "warehouse"),
        }

    def trips(self, *, version: int = 2, location: str | None = None, **properties: str) -> Trips:
        """Make a table, partitioned by `p`, whose row-level changes write position deletes."""
        name = f"trips_{next(self.names)}"
        merge_on_read = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}
        given = {key.replace("_", "-").replace("--", "."): value for key, value in properties.items()}
        self.catalog.create_table(
            ("db", name),
            schema=_SCHEMA,
            partition_spec=_BY_P,
            location=location,
            properties={"format-version": str(version), **merge_on_read, **given},
        )
        return Trips(lake=self, name=name)


@dataclass
class Trips:
    """A table with small files, and what its writers know to be in it: the value of each id."""

    lake: Lake
    name: str
    expected: dict[int, str] = field(default_factory=dict)
    quiet_for: str = QUIET["quiet_for"]

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of the table."""
        return {
            "format": "iceberg",
            "location": f"catalog://{CATALOG}/db.{self.name}",
            "catalog": dict(self.lake.settings),
            "table_options": self.options,
        }

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in a configuration says of the table itself."""
        return {"format": "iceberg", "path": self.assigned["location"], "options": self.options}

    @property
    def options(self) -> Mapping[str, Any]:
        """The options of the table in a configuration."""
        return {**QUIET, "quiet_for": self.quiet_for}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """The catalog that knows it."""
        return {CATALOG: {"format": "iceberg", **self.lake.settings}}

    @property
    def sql(self) -> str:
        """The table as Spark names it."""
        return f"{CATALOG}.db.{self.name}"

    def append(self, *, commits: int = 1, partitions: int = 2, rows: int = 5) -> None:
        """Commit so many times one small file to each partition."""
        for _ in range(commits):
            first = len(self.expected) and max(self.expected) + 1
            added = [(id_, (id_ - first) % partitions, f"v{id_}") for id_ in range(first, first + rows * partitions)]
            columns = zip(*added, strict=True)
            arrays = [pa.array(column, one.type) for column, one in zip(columns, _ARROW, strict=True)]
            self.read().append(pa.Table.from_arrays(arrays, schema=_ARROW))
            self.expected.update({id_: value for id_, _, value in added})

    def delete(self, *ids: int) -> None:
        """Delete rows by a row-level DELETE of Spark, which writes position deletes."""
        self.lake.spark.sql(f"delete from {self.sql} where id in ({', '.join(map(str, ids))})")
        for id_ in ids:
            del self.expected[id_]

    def age(self, by: timedelta = timedelta(hours=2)) -> None:
        """Make every commit older, as if so much time had passed since. Nothing but the current metadata tells it."""
        file = Path(self.read().metadata_location.removeprefix("file:"))
        metadata = json.loads(file.read_text())
        moments = (metadata, *metadata["snapshots"], *metadata["snapshot-log"], *metadata["metadata-log"])
        for one, key in itertools.product(moments, ("timestamp-ms", "last-updated-ms")):
            if key in one:
                one[key] -= by // timedelta(milliseconds=1)
        file.write_text(json.dumps(metadata))
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)

    def read(self) -> Table:
        """Return the table as pyiceberg sees it now."""
        return self.lake.catalog.load_table(("db", self.name))

    def found(self) -> dict[int, str]:
        """Return what pyiceberg finds: a reader that shares no code with what wrote or serviced the table."""
        rows = self.read().scan().to_arrow()
        found = dict(zip(rows["id"].to_pylist(), rows["v"].to_pylist(), strict=True))
        assert len(found) == rows.num_rows, "a row was found twice"
        return found

    def manifests(self, *, content: int) -> set[str]:
        """Return where the current manifests of data (0) or of deletes (1) lie."""
        found = self.read().inspect.manifests()
        return {
            path
            for path, of in zip(found["path"].to_pylist(), found["content"].to_pylist(), strict=True)
            if of == content
        }

    def data_files(self) -> int:
        """Return how many data files the current snapshot has."""
        return len(self.read().inspect.data_files())

    def files_by_partition(self) -> Mapping[int, int]:
        """Return how many data files each partition has."""
        return Counter(of["p"] for of in self.read().inspect.data_files()["partition"].to_pylist())

    def data_file_of(self, partition: int) -> Path:
        """Return where one data file of a partition lies."""
        files = self.read().inspect.data_files()
        paths = zip(files["file_path"].to_pylist(), files["partition"].to_pylist(), strict=True)
        return next(Path(path.removeprefix("file://")) for path, of in paths if of["p"] == partition)

    def files_on_disk(self) -> set[str]:
        """Return the names of all data and delete files, whether a snapshot knows them or not."""
        return {path.name for path in self.data_folder().rglob("*") if path.is_file() and path.suffix != ".crc"}

    def data_folder(self) -> Path:
        """Return the folder of the data files."""
        return Path(re.sub(r"^file:/*", "/", self.read().location()), "data")

    def signed_by(self, run: str) -> list[Mapping[str, Any]]:
        """Return the summaries of the snapshots that a run has made, the oldest first."""
        summaries = [one.summary for one in self.read().snapshots() if one.summary is not None]
        return [
            {"operation": one.operation.value, **one.additional_properties}
            for one in summaries
            if one.additional_properties.get("lakewarden.run-id") == run
        ]
