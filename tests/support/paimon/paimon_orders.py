"""Paimon tables that Paimon's own core writes and reads, in another JVM than the worker's, and what their writers know
of the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lakewarden.planners.formats.paimon.catalogs.settings import Catalog, core_options

_CATALOG: TypeAdapter[Any] = TypeAdapter(Catalog)

Row = tuple[int, str, str]
"""An id, a text and the partition."""


@dataclass(frozen=True)
class Prepared:
    """Files that are written and not committed."""

    table: PaimonOrders
    rows: list[Row]
    builder: Any
    messages: Any

    def commit(self) -> None:
        """Commit them."""
        commit = self.builder.newCommit()
        commit.commit(self.messages)
        commit.close()
        self.table.expect(self.rows)


@dataclass
class PaimonOrders:
    """One table of a warehouse in a folder, partitioned by `dt`. With `keyed` its key is the id and the partition.

    `expected` are the rows that its writers have written, by id and partition; of an append table in the order in which
    they were written.
    """

    warehouse: Path
    spark: Any
    name: str = "orders"
    keyed: bool = True
    options: Mapping[str, str] = field(default_factory=lambda: {"bucket": "2"})
    expected: list[Row] = field(default_factory=list)
    told: Mapping[str, Any] = field(default_factory=dict)
    """The options of the table in the configuration of Lakewarden."""
    known_by: Mapping[str, Any] = field(default_factory=dict)
    """The catalog as the configuration of Lakewarden has it. Without one the table is known by its folder."""
    database: str = "db"

    def __post_init__(self) -> None:
        """Create the table."""
        self._catalog = self._opened()
        self._catalog.createDatabase(self.database, bool(1))
        self._identifier = self.paimon.catalog.Identifier.create(self.database, self.name)
        self.create()

    def _opened(self) -> Any:
        """Return the catalog of the writers."""
        paimon = self.paimon
        options = paimon.options.Options()
        options.set("warehouse", str(self.warehouse))
        if self.known_by.get("type") in {"hive", "jdbc"}:
            for key, value in core_options(_CATALOG.validate_python(dict(self.known_by))).items():
                options.set(key, value)
        hadoop = self.spark.sparkContext._jsc.hadoopConfiguration()
        return paimon.catalog.CatalogFactory.createCatalog(paimon.catalog.CatalogContext.create(options, hadoop))

    def create(self) -> None:
        """Create the table, in the folder of one that was renamed too."""
        types = self.paimon.types.DataTypes
        paimon = self.paimon
        columns = paimon.schema.Schema.newBuilder().column("id", types.INT()).column("v", types.STRING())
        columns = columns.column("dt", types.STRING()).partitionKeys(self._texts("dt"))
        if self.keyed:
            columns = columns.primaryKey(self._texts("id", "dt"))
        for key, value in {"write-only": "true", **self.options}.items():
            columns = columns.option(key, value)
        self._catalog.createTable(self._identifier, columns.build(), bool(0))

    @property
    def jvm(self) -> Any:
        """The JVM of the writers."""
        return self.spark.sparkContext._jvm

    @property
    def paimon(self) -> Any:
        """Paimon's package."""
        return self.jvm.org.apache.paimon

    @property
    def folder(self) -> Path:
        """The table's folder."""
        return self.warehouse / f"{self.database}.db" / self.name

    @property
    def address(self) -> str:
        """How it is named in the configuration: by its catalog, or by its folder."""
        return f"catalog://lake/{self.database}.{self.name}" if self.known_by else str(self.folder)

    def rename(self, name: str) -> None:
        """Rename the table by its catalog."""
        to = self.paimon.catalog.Identifier.create(self.database, name)
        self._catalog.renameTable(self._identifier, to, bool(0))
        self.name, self._identifier = name, to

    @property
    def configured(self) -> Mapping[str, Any]:
        """What its entry in the configuration says of the table itself."""
        return {"format": "paimon", "path": self.address, "options": dict(self.told)}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        """The catalogs that know it."""
        return {"lake": {"format": "paimon", **self.known_by}} if self.known_by else {}

    @property
    def assigned(self) -> Mapping[str, Any]:
        """What an assignment says of the table."""
        catalog = {"catalog": dict(self.known_by)} if self.known_by else {}
        return {"format": "paimon", "location": self.address, "table_options": dict(self.told), **catalog}

    def write(self, rows: Iterable[Row], *, kind: str = "INSERT", **options: str) -> None:
        """Write rows in one commit. A row of a known key replaces the one before. `options` are those of this job."""
        builder = self.paimon.table.sink.BatchWriteBuilderImpl(self._table(options))
        self._write(builder, list(rows), kind=kind)

    def stream(self, rows: Iterable[Row], *, user: str, identifier: int) -> None:
        """Write rows as a streaming job with this commit user does at a checkpoint."""
        builder = self.paimon.table.sink.StreamWriteBuilderImpl(self._table({})).withCommitUser(user)
        self._write(builder, list(rows), identifier)

    def prepare(self, rows: Iterable[Row]) -> Prepared:
        """Write files as a job does before it commits them."""
        builder = self.paimon.table.sink.BatchWriteBuilderImpl(self._table({}))
        writing, kept = builder.newWrite(), list(rows)
        self._fill(writing, kept)
        return Prepared(self, kept, builder, writing.prepareCommit())

    def _write(self, builder: Any, rows: list[Row], *identifier: int, kind: str = "INSERT") -> None:
        writing, commit = builder.newWrite(), builder.newCommit()
        self._fill(writing, rows, kind)
        messages = writing.prepareCommit(bool(0), *identifier) if identifier else writing.prepareCommit()
        commit.commit(*identifier, messages)
        commit.close()
        writing.close()
        self.expect(rows)

    def expect(self, rows: list[Row]) -> None:
        """Remember rows that were committed."""
        new = {(row[0], row[2]) for row in rows} if self.keyed else set()
        self.expected = [one for one in self.expected if (one[0], one[2]) not in new] + rows

    @property
    def _is_dynamic(self) -> bool:
        """Whether its writers choose the bucket of each key."""
        return self.keyed and self.options.get("bucket") == "-1"

    def _fill(self, writing: Any, rows: list[Row], kind: str = "INSERT") -> None:
        for row in rows:
            made = self.paimon.data.GenericRow(getattr(self.paimon.types.RowKind, kind), 3)
            made.setField(0, row[0])
            for place in (1, 2):
                made.setField(place, self.paimon.data.BinaryString.fromString(row[place]))
            writing.write(made, *([row[0] % 2] if self._is_dynamic else []))
        writing.withIOManager(self.paimon.disk.IOManager.create(str(self.warehouse)))

    def alter(self, key: str, value: str) -> None:
        """Set an option of the table, which makes a schema."""
        changes = self.jvm.java.util.ArrayList()
        changes.add(self.paimon.schema.SchemaChange.setOption(key, value))
        self._catalog.alterTable(self._identifier, changes, bool(0))

    def compact_itself(self) -> None:
        """Compact the table in full by the commit user of another program."""
        table = self._table({"write-only": "false"})
        builder = self.paimon.table.sink.BatchWriteBuilderImpl(table)
        writing = builder.newWrite()
        writing.withIOManager(self.paimon.disk.IOManager.create(str(self.warehouse)))
        for split in table.newSnapshotReader().read().dataSplits():
            writing.compact(split.partition(), split.bucket(), bool(1))
        commit = builder.newCommit()
        commit.commit(writing.prepareCommit())
        commit.close()
        writing.close()

    def filtered(self, user: str, *identifiers: int) -> list[int]:
        """Return those of the identifiers that a job which is restored would commit again."""
        commit = self._table({}).store().newCommit(user, self._table({}))
        wanted = self.jvm.java.util.ArrayList()
        for one in identifiers:
            wanted.add(self.paimon.manifest.ManifestCommittable(one))
        left = [int(one.identifier()) for one in commit.filterCommitted(wanted)]
        commit.close()
        return left

    def tag(self, name: str, *snapshot: int) -> None:
        """Tag a snapshot: by default the newest."""
        self._table({}).createTag(name, *snapshot)

    def roll_back(self, snapshot: int) -> None:
        """Make an older snapshot the newest."""
        self._table({}).rollbackTo(snapshot)

    def expire_itself(self, *, changelogs: int = 1) -> None:
        """Let Paimon's own expiry keep the newest snapshot alone, and so many changelogs."""
        days = self.jvm.java.time.Duration.ofDays
        config = self.paimon.options.ExpireConfig.builder().snapshotRetainMax(1).snapshotRetainMin(1)
        config = config.changelogRetainMax(changelogs).changelogRetainMin(changelogs)
        config = config.changelogTimeRetain(days(changelogs - 1)).snapshotTimeRetain(days(0)).build()
        self._table({}).newExpireSnapshots().config(config).expire()

    def branch(self, name: str, tag: str) -> None:
        """Make a branch of a tag."""
        self._table({}).createBranch(name, tag)

    def delete_tag(self, name: str) -> None:
        """Delete a tag by Paimon's own means, which deletes the files that only it has."""
        self._table({}).deleteTag(name)

    def consume(self, name: str, following: int) -> None:
        """Let a consumer stand before a snapshot."""
        self._table({}).consumerManager().resetConsumer(name, self.paimon.consumer.Consumer(following))

    def read_branch(self, name: str) -> list[Row]:
        """Return the rows of a branch."""
        return self._read(self._table({}).switchToBranch(name))

    def read(self, **options: str) -> list[Row]:
        """Return the rows as Paimon's own reader returns them, sorted. `options` are those of the reader."""
        return self._read(self._table({key.replace("_", "-").replace("--", "."): one for key, one in options.items()}))

    def _read(self, table: Any) -> list[Row]:
        builder = self.paimon.table.source.ReadBuilderImpl(table)
        found = []
        for split in builder.newScan().plan().splits():
            rows = self.paimon.reader.RecordReaderIterator(builder.newRead().createReader(split))
            while rows.hasNext():
                row = rows.next()
                found.append((int(row.getInt(0)), str(row.getString(1).toString()), str(row.getString(2).toString())))
            rows.close()
        return sorted(found)

    def snapshots(self) -> list[dict[str, Any]]:
        """Return the files of all snapshots, the oldest first."""
        files = (self.folder / "snapshot").glob("snapshot-*")
        return [json.loads(one.read_text()) for one in sorted(files, key=lambda one: int(one.name.split("-")[1]))]

    def signed_by(self, run: str) -> list[dict[str, Any]]:
        """Return the snapshots with the commit user of a run."""
        return [one for one in self.snapshots() if one["commitUser"] == f"lakewarden-{run}"]

    def files(self) -> set[str]:
        """Return all files below the folder, without hints."""
        found = (one for one in self.folder.rglob("*") if one.is_file() and one.name not in ("LATEST", "EARLIEST"))
        return {str(one.relative_to(self.folder)) for one in found}

    def data_files(self) -> set[str]:
        """Return the data files on disk, whether a snapshot names them or not."""
        return {one for one in self.files() if "/bucket-" in one}

    def live_files(self) -> list[str]:
        """Return the data files of the newest snapshot, by Paimon's own scan."""
        splits = self._table({}).newSnapshotReader().read().dataSplits()
        return [str(file.fileName()) for split in splits for file in split.dataFiles()]

    def _table(self, options: Mapping[str, str]) -> Any:
        made = self.jvm.java.util.HashMap()
        for key, value in options.items():
            made.put(key, value)
        return self._catalog.getTable(self._identifier).copy(made)

    def _texts(self, *texts: str) -> Any:
        found = self.jvm.java.util.ArrayList()
        for one in texts:
            found.add(one)
        return found


def rows(begin: int, text: str, count: int = 20) -> list[Row]:
    """Return rows of two partitions."""
    return [(number, text, dt) for dt in ("a", "b") for number in range(begin, begin + count)]
