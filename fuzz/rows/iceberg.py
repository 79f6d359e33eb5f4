"""Tables of Iceberg in a catalog in SQLite: the writers are Spark, Iceberg's own API, pyiceberg, and a job that deletes
by equality as Flink does.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import IntegerType

from fuzz.rows.contract import FuzzedTable, Look, NotNow, Rows
from fuzz.rows.iceberg_draws import OURS, Draws, kind_of_a_table
from fuzz.rows.iceberg_files import live_files, local, metadata_at, rows_by_the_spec
from fuzz.rows.killed import run_killed
from fuzz.rows.program import Act
from fuzz.rows.running import JAVA
from lakewarden.executors.contract import Failed
from live.iceberg.catalog_demo import driver

_CATALOG = "lake"
_NAME = f"{_CATALOG}.db.t"


class IcebergRows:
    """Draws kinds of tables and acts: fulfils `RowsFormat`."""

    name = "iceberg"
    services = frozenset(OURS)

    @property
    def spark(self) -> Mapping[str, str]:
        """Return the driver of the catalog's database, and the rules without which no row-level change of version 3
        copies files.
        """
        extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        return {"spark.driver.extraClassPath": str(driver()), "spark.sql.extensions": extensions}

    def draw(self, chance: Random) -> tuple[Mapping[str, Any], Sequence[Act]]:
        """Return the kind of a table, and acts."""
        kind = kind_of_a_table(chance)
        return kind, list(Draws(kind, chance).acts(chance.randrange(12, 36)))

    def make(self, kind: Mapping[str, Any], folder: Path, session: Any) -> FuzzedTable:
        """Return an empty table."""
        return IcebergRowsTable(kind, folder, session)


ROWS = IcebergRows()


Row = Mapping[int, Any]
"""A row by the ids of its columns."""

_K, _P, _D, _A, _B = 1, 2, 3, 4, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """The rows, and the names of the columns by their ids, in their order."""

    rows: tuple[Row, ...] = ()
    columns: Mapping[int, str] = field(default_factory=lambda: {_K: "k", _P: "p", _D: "d", _A: "a", _B: "b"})

    def told(self) -> Rows:
        return Counter(tuple(row.get(column) for column in self.columns) for row in self.rows)


class IcebergRowsTable:
    """One table, its writers and their record: fulfils `FuzzedTable`."""

    location = f"catalog://{_CATALOG}/db.t"

    def __init__(self, kind: Mapping[str, Any], folder: Path, spark: Any) -> None:
        self._kind, self._spark, self._folder = kind, spark, folder
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001
        self._iceberg = self._jvm.org.apache.iceberg
        self._now = _State()
        self._history: dict[int, _State] = {}
        """The table at each snapshot."""
        self._tags: dict[str, _State] = {}
        self._branches: dict[str, tuple[Row, ...]] = {}
        self._row_ids: Rows | None = None
        self._aside: dict[int, tuple[Row, ...]] = {}
        self._specs = [kind["spec"]]
        self._writes = self._names = self._checkpoints = 0
        self._make()

    # -- what the frame asks for

    @property
    def catalog(self) -> Mapping[str, Any]:
        """Return the catalog's settings."""
        uri, warehouse = f"jdbc:sqlite:{self._folder}/catalog.db", str(self._folder / "warehouse")
        return {"type": "jdbc", "uri": uri, "warehouse": warehouse, "properties": {"jdbc.busy_timeout": "20000"}}

    @property
    def options(self) -> Mapping[str, Any]:
        """Return that no writer stops and goes on later, and that partitions rest at once."""
        told = {"quiet_for": "0s", "quiet_intervals": 0, "distance": "0s", "longest_outage": "0s"}
        return {**told, "flink_restores": "0s", "keep_last_flink_commit": self._kind["keeps_sink"]}

    def do(self, act: Act) -> None:
        """Do an act of a writer."""
        if act.name != "append" and not self._history:
            raise NotNow("nothing was written")
        self._remember()
        self._row_ids = None
        self._acts(act.given)[act.name]()
        self._remember()

    def _acts(self, given: Mapping[str, Any]) -> Mapping[str, Callable[[], Any]]:
        keys: Sequence[int] = given.get("keys", ())
        return {
            "append": lambda: self._append(keys),
            "append by pyiceberg": lambda: self._append_by_pyiceberg(keys),
            "merge": lambda: self._merge(keys),
            "update": lambda: self._update(keys),
            "delete": lambda: self._delete("k", keys),
            "delete partition": lambda: self._delete("p", [given["p"]]),
            "overwrite": lambda: self._overwrite(given["p"], keys),
            "overwrite dynamic": lambda: self._overwrite_dynamic(keys),
            "upsert": lambda: self._checkpoint(keys, adds=True),
            "equality delete": lambda: self._checkpoint(keys, adds=False),
            "add column": self._add_column,
            "rename column": self._rename_column,
            "drop column": self._drop_column,
            "widen column": self._widen_column,
            "change spec": lambda: self._change_spec(given["spec"]),
            "roll back": lambda: self._go_back("rollbackTo", -2),
            "set current": lambda: self._go_back("setCurrentSnapshot", 0),
            "tag": self._tag,
            "branch": self._branch,
            "write to branch": lambda: self._write_to_branch(keys),
            "publish": self._publish,
            "drop ref": self._drop_ref,
            "set aside": lambda: self._set_aside(keys),
            "cherry-pick": self._cherry_pick,
            "expire": self._expire,
            "rewrite": self._rewrite,
            "stray": self._stray,
            "upgrade": self._upgrade,
            "killed": lambda: run_killed("iceberg", self, given, self._spark, by_fork=False),
            "beside": lambda: self._beside(given),
        }

    def _beside(self, given: Mapping[str, Any]) -> None:
        """Let writers act while a run of ours stands at a point."""

        def write() -> None:
            for name, arguments in given["writes"]:
                with contextlib.suppress(NotNow):
                    self.do(Act(name, arguments))

        outcome = run_killed("iceberg", self, given, self._spark, by_fork=False, meanwhile=write)
        if isinstance(outcome, Failed) and JAVA.match(outcome.reason):
            raise RuntimeError(f"{given['service']} failed in {outcome.step}: {outcome.reason}")

    def looks(self) -> Iterable[Look]:
        """Return what Spark must find now, in tags, branches and older snapshots; and pyiceberg, and a reader that
        applies the deletes by itself.
        """
        if not self._history:
            return
        self._remember()
        metadata = metadata_at(self._metadata_location())
        current = metadata["current-snapshot-id"]
        now, kept = self._now.told(), {one["snapshot-id"] for one in metadata["snapshots"]}
        yield Look(by="spark", find=lambda: self._read({}), expected=now)
        yield Look(by="files", find=lambda: rows_by_the_spec(metadata), expected=now)
        if self._pyiceberg_can(metadata, current):
            yield Look(by="pyiceberg", find=self._by_pyiceberg, expected=now)
        if metadata["format-version"] >= 3:  # none of our services gives a row another id
            if not self._row_ids or any(
                given is None for _key, given in self._row_ids
            ):  # upgraded, and no commit since
                self._row_ids = self._read({}, "k", "_row_id")
            yield Look(by="spark row ids", find=lambda: self._read({}, "k", "_row_id"), expected=self._row_ids)
        for name, state in self._tags.items():
            yield Look(by="spark of a tag", find=self._reader({"tag": name}), expected=state.told())
        for name, rows in self._branches.items():
            state = replace(self._now, rows=rows)
            yield Look(by="spark of a branch", find=self._reader({"branch": name}), expected=state.told())
        for number in sorted(kept & self._history.keys()):
            told = self._history[number].told()
            yield Look(by="files of a snapshot", find=self._by_files(metadata, number), expected=told)
        for number in sorted(kept & self._history.keys())[:1]:
            told = self._history[number].told()
            yield Look(by="time travel", find=self._reader({"snapshot-id": str(number)}), expected=told)

    # -- the table

    def _make(self) -> None:
        kind = self._kind
        start = f"spark.sql.catalog.{_CATALOG}"
        given = {key: value for key, value in self.catalog.items() if key != "properties"}
        for key, value in {**given, **self.catalog["properties"], "cache-enabled": "false"}.items():
            self._spark.conf.set(f"{start}.{key}", value)
        self._spark.conf.set(start, "org.apache.iceberg.spark.SparkCatalog")
        self._python = load_catalog(
            _CATALOG, type="sql", uri=f"sqlite:///{self._folder}/catalog.db", warehouse=str(self._folder / "warehouse")
        )
        self._python.create_namespace("db")
        told = ", ".join(f"'{key}'='{value}'" for key, value in self._properties().items())
        columns = "k int, p int, d date, a int, b string"
        self._spark.sql(f"create table {_NAME} ({columns}) using iceberg tblproperties ({told})")
        self._respec("", kind["spec"])
        if kind["sorted"]:
            first = self._iceberg.NullOrder.NULLS_FIRST
            self._java().replaceSortOrder().asc(self._iceberg.expressions.Expressions.ref("a"), first).commit()

    def _properties(self) -> Mapping[str, str]:
        kind = self._kind
        return {
            "format-version": str(kind["version"]),
            "write.delete.mode": kind["delete"],
            "write.update.mode": kind["update"],
            "write.merge.mode": kind["update"],
            "write.delete.granularity": kind["granularity"],
            "write.format.default": kind["files"],
            "write.metadata.compression-codec": "gzip" if kind["gzip"] else "none",
            "write.object-storage.enabled": str(kind["object_store"]).lower(),
            "write.distribution-mode": "none",
            "write.delete.distribution-mode": "none",
            "write.update.distribution-mode": "none",
            "write.merge.distribution-mode": "none",
            "write.spark.fanout.enabled": "true",
            "write.wap.enabled": "true",
            "commit.manifest.min-count-to-merge": "4",
        }

    def _java(self) -> Any:
        return self._iceberg.spark.Spark3Util.loadIcebergTable(self._spark._jsparkSession, _NAME)  # noqa: SLF001

    def _metadata_location(self) -> str:
        return str(self._java().operations().current().metadataFileLocation())

    def _remember(self) -> None:
        """Give each snapshot that is new on main, as those of ours, the rows of now."""
        table = self._java()
        for one in self._iceberg.util.SnapshotUtil.currentAncestorIds(table):
            self._history.setdefault(int(one), self._now)

    # -- readers

    def _read(self, options: Mapping[str, str], *columns: str) -> Rows:
        found = self._spark.read.options(**options).format("iceberg").load(_NAME).select(*(columns or ("*",)))
        return Counter(tuple(row) for row in found.collect())

    def _reader(self, options: Mapping[str, str]) -> Callable[[], Rows]:
        return lambda: self._read(options)

    def _by_files(self, metadata: Mapping[str, Any], snapshot: int) -> Callable[[], Rows]:
        return lambda: rows_by_the_spec(metadata, snapshot)

    def _by_pyiceberg(self) -> Rows:
        found = self._python.load_table("db.t").scan().to_arrow()
        return Counter(tuple(row.values()) for row in found.to_pylist())

    def _pyiceberg_can(self, metadata: Mapping[str, Any], snapshot: int) -> bool:
        """Whether pyiceberg reads all files of a snapshot: it knows neither Avro, nor deletes by equality."""
        files = [one.told for one in live_files(metadata, snapshot)]
        return all(one["file_format"] in ("PARQUET", "PUFFIN") and one["content"] != 2 for one in files)

    # -- writers

    def _value_of_a(self) -> int:
        """Return a new value: a large one if the type is, because py4j takes only such numbers for a long."""
        self._writes += 1
        return self._writes + (0 if self._type_of_a() == "int" else 2**40)

    def _rows(self, keys: Sequence[int]) -> tuple[Row, ...]:
        a = self._value_of_a()
        return tuple(
            {
                _K: key,
                _P: key % 2,
                _D: dt.date(2026, 11, 1 + key % 3),
                _A: None if (key + self._writes) % 7 == 0 else a,
                **{column: f"{name}{self._writes}" for column, name in self._now.columns.items() if column >= _B},
            }
            for key in keys
        )

    def _frame(self, rows: Sequence[Row]) -> str:
        """Return rows in SQL."""
        types = {_K: "int", _P: "int", _D: "date", _A: "int" if self._type_of_a() == "int" else "bigint"}
        lines = [
            ", ".join(f"cast({_sql(row[one])} as {types.get(one, 'string')})" for one in self._now.columns)
            for row in rows
        ]
        names = ", ".join(self._now.columns.values())
        return f"select * from values {', '.join(f'({line})' for line in lines)} as s({names})"

    def _type_of_a(self) -> str:
        return str(self._java().schema().findType("a").toString())

    def _append(self, keys: Sequence[int]) -> None:
        rows = self._rows(keys)
        self._spark.sql(f"insert into {_NAME} {self._frame(rows)}")
        self._becomes((*self._now.rows, *rows))

    def _becomes(self, rows: Iterable[Row]) -> None:
        self._now = replace(self._now, rows=tuple(rows))

    def _append_by_pyiceberg(self, keys: Sequence[int]) -> None:
        table, rows = self._python.load_table("db.t"), self._rows(keys)
        if self._kind["files"] != "parquet" or table.format_version > 2 or self._specs[-1] not in ("", "p"):
            raise NotNow("pyiceberg cannot write such a table")
        types = {_K: pa.int32(), _P: pa.int32(), _D: pa.date32(), _A: table.schema().find_type("a")}
        types[_A] = pa.int64() if str(types[_A]) == "long" else pa.int32()
        schema = pa.schema([(name, types.get(one, pa.string())) for one, name in self._now.columns.items()])
        told = [{name: row.get(one) for one, name in self._now.columns.items()} for row in rows]
        table.append(pa.Table.from_pylist(told, schema=schema))
        self._becomes((*self._now.rows, *rows))

    def _merge(self, keys: Sequence[int]) -> None:
        rows = self._rows(keys)
        self._spark.sql(
            f"merge into {_NAME} t using ({self._frame(rows)}) s on t.k = s.k "
            "when matched then update set * when not matched then insert *"
        )
        new, old = {row[_K]: row for row in rows}, {row[_K] for row in self._now.rows}
        updated = [new.get(row[_K], row) for row in self._now.rows]
        self._becomes((*updated, *(row for row in rows if row[_K] not in old)))

    def _update(self, keys: Sequence[int]) -> None:
        a = self._value_of_a()
        self._spark.sql(f"update {_NAME} set a = {a} where k in ({_list(keys)})")
        self._becomes({**row, _A: a} if row[_K] in keys else row for row in self._now.rows)

    def _delete(self, column: str, values: Sequence[int]) -> None:
        self._spark.sql(f"delete from {_NAME} where {column} in ({_list(values)})")
        at = {"k": _K, "p": _P}[column]
        self._becomes(row for row in self._now.rows if row[at] not in values)

    def _overwrite(self, p: int, keys: Sequence[int]) -> None:
        """Overwrite a partition, or all rows if files may have rows of both."""
        whole = any("p" not in spec.split() for spec in self._specs)
        rows = [row for row in self._rows(keys) if whole or row[_P] == p]
        if not rows:
            raise NotNow("no key is of the partition")
        functions = self._spark.sql(self._frame(rows)).writeTo(_NAME)
        functions.overwrite(_column("true" if whole else f"p = {p}"))
        self._becomes((*(row for row in self._now.rows if not whole and row[_P] != p), *rows))

    def _overwrite_dynamic(self, keys: Sequence[int]) -> None:
        if len(self._specs) > 1:
            raise NotNow("it replaces partitions of the newest spec alone")
        rows = self._rows(keys)
        self._spark.sql(self._frame(rows)).writeTo(_NAME).overwritePartitions()
        new = {self._place(row) for row in rows}
        self._becomes((*(row for row in self._now.rows if self._place(row) not in new), *rows))

    def _place(self, row: Row) -> tuple[Any, ...]:
        """Return the partition of a row."""
        known: Mapping[str, Callable[[], Any]] = {
            "p": lambda: row[_P],
            "bucket": lambda: BucketTransform(4).transform(IntegerType())(row[_K]),
            "truncate": lambda: row[_K] // 5,
            "day": lambda: row[_D],
        }
        return tuple(known[one]() for one in self._specs[-1].split())

    def _checkpoint(self, keys: Sequence[int], *, adds: bool) -> None:
        """Commit as a job of Flink does: the keys are deleted by equality, in each spec, and new rows are added."""
        table = self._java()
        if int(table.operations().current().formatVersion()) == 1:
            raise NotNow("format version 1 knows no deletes")
        rows = self._rows(keys)
        commit = table.newRowDelta()
        for spec in table.specs().values():
            for partition, some in self._by_partition(table, spec, rows):
                commit = commit.addDeletes(self._written(table, spec, partition, some, deletes=True))
        if adds:
            for partition, some in self._by_partition(table, table.spec(), rows):
                commit = commit.addRows(self._written(table, table.spec(), partition, some, deletes=False))
        self._checkpoints += 1
        commit.set("flink.job-id", "job").set("flink.operator-id", "sink")
        commit.set("flink.max-committed-checkpoint-id", str(self._checkpoints)).commit()
        self._becomes((*(row for row in self._now.rows if row[_K] not in keys), *(rows if adds else ())))

    def _by_partition(self, table: Any, spec: Any, rows: Sequence[Row]) -> Iterable[tuple[Any, list[Any]]]:
        """Return records by their partition, with the keys of the partitions."""
        found: dict[str, tuple[Any, list[Any]]] = {}
        for row in rows:
            record = self._iceberg.data.GenericRecord.create(table.schema())
            for column, name in self._now.columns.items():
                value: Any = row.get(column)
                if column == _D:
                    value = self._jvm.java.time.LocalDate.of(value.year, value.month, value.day)
                record.setField(name, value)
            key = self._iceberg.PartitionKey(spec, table.schema())
            key.partition(self._iceberg.data.InternalRecordWrapper(table.schema().asStruct()).wrap(record))
            found.setdefault(str(key.toPath()), (key, []))[1].append(record)
        return found.values()

    def _written(self, table: Any, spec: Any, partition: Any, records: Sequence[Any], *, deletes: bool) -> Any:
        names, ids = self._jvm.java.util.ArrayList(), self._array(self._jvm.java.lang.Integer.TYPE, _K)
        names.add("k")
        factory = self._iceberg.data.GenericAppenderFactory(
            table.schema(), spec, ids, table.schema().select(names), None
        )
        kind = getattr(self._iceberg.FileFormat, self._kind["files"].upper())
        name = f"{uuid4()}.{self._kind['files']}"
        place = table.locationProvider().newDataLocation(spec, partition, name)
        file = self._iceberg.encryption.EncryptedFiles.plainAsEncryptedOutput(table.io().newOutputFile(place))
        make = factory.newEqDeleteWriter if deletes else factory.newDataWriter
        writer = make(file, kind, partition if spec.isPartitioned() else None)
        for record in records:
            writer.write(record.copy("k", record.getField("k")) if deletes else record)
        writer.close()
        return writer.toDeleteFile() if deletes else writer.toDataFile()

    def _array(self, kind: Any, *values: Any) -> Any:
        made = self._jvm.java.lang.reflect.Array.newInstance(kind, len(values))
        for at, value in enumerate(values):
            self._jvm.java.lang.reflect.Array.set(made, at, value)
        return made

    # -- schemas and specs

    def _evolved(self, columns: Mapping[int, str]) -> None:
        self._now = replace(self._now, columns=columns)

    def _add_column(self) -> None:
        self._names += 1
        name = "b" if "b" not in self._now.columns.values() else f"c{self._names}"
        table = self._java()
        table.updateSchema().addColumn(name, self._iceberg.types.Types.StringType.get()).commit()
        self._evolved({**self._now.columns, int(self._java().schema().findField(name).fieldId()): name})

    def _last_text(self) -> int:
        texts = [column for column in self._now.columns if column >= _B]
        if not texts:
            raise NotNow("too few columns")
        return texts[-1]

    def _rename_column(self) -> None:
        self._names += 1
        column, new = self._last_text(), f"r{self._names}"
        self._java().updateSchema().renameColumn(self._now.columns[column], new).commit()
        self._evolved({one: new if one == column else name for one, name in self._now.columns.items()})

    def _drop_column(self) -> None:
        column = self._last_text()
        self._java().updateSchema().deleteColumn(self._now.columns[column]).commit()
        self._evolved({one: name for one, name in self._now.columns.items() if one != column})

    def _widen_column(self) -> None:
        self._java().updateSchema().updateColumn("a", self._iceberg.types.Types.LongType.get()).commit()

    def _change_spec(self, spec: str) -> None:
        self._respec(self._specs[-1], spec)
        if spec != self._specs[-1]:
            self._specs.append(spec)

    def _respec(self, old: str, new: str) -> None:
        if set(old.split()) == set(new.split()):
            return
        update, terms = self._java().updateSpec(), self._iceberg.expressions.Expressions
        known: Mapping[str, Callable[[], Any]] = {
            "p": lambda: terms.ref("p"),
            "bucket": lambda: terms.bucket("k", 4),
            "truncate": lambda: terms.truncate("k", 5),
            "day": lambda: terms.day("d"),
        }
        for one in sorted(set(old.split()) - set(new.split())):
            update = update.removeField(known[one]())
        for one in sorted(set(new.split()) - set(old.split())):
            update = update.addField(known[one]())
        update.commit()

    def _upgrade(self) -> None:
        table = self._java()
        version = int(table.operations().current().formatVersion())
        if version == 3:
            raise NotNow("it is the newest version")
        table.updateProperties().set("format-version", str(version + 1)).commit()

    # -- operators

    def _ancestors(self) -> list[int]:
        """Return the snapshots of main with known rows, the oldest first."""
        found = [int(one) for one in self._iceberg.util.SnapshotUtil.currentAncestorIds(self._java())]
        return [one for one in reversed(found) if one in self._history]

    def _go_back(self, how: str, place: int) -> None:
        found = self._ancestors()
        if len(found) < 2:
            raise NotNow("there is no snapshot to go back to")
        number = found[place]
        getattr(self._java().manageSnapshots(), how)(number).commit()
        self._becomes(self._history[number].rows)

    def _tag(self) -> None:
        self._names += 1
        name, current = f"t{self._names}", self._current()
        self._java().manageSnapshots().createTag(name, current).commit()
        self._tags[name] = self._history[current]

    def _current(self) -> int:
        return int(self._java().currentSnapshot().snapshotId())

    def _branch(self) -> None:
        self._names += 1
        name = f"b{self._names}"
        self._java().manageSnapshots().createBranch(name, self._current()).commit()
        self._branches[name] = self._now.rows

    def _any_branch(self) -> str:
        if not self._branches:
            raise NotNow("there is no branch")
        return next(iter(self._branches))

    def _write_to_branch(self, keys: Sequence[int]) -> None:
        name, rows = self._any_branch(), self._rows(keys)
        self._spark.sql(f"delete from {_NAME}.branch_{name} where k in ({_list(keys)})")
        self._spark.sql(f"insert into {_NAME}.branch_{name} {self._frame(rows)}")
        self._branches[name] = (*(row for row in self._branches[name] if row[_K] not in keys), *rows)
        head = int(self._java().refs().get(name).snapshotId())
        self._history[head] = replace(self._now, rows=self._branches[name])

    def _publish(self) -> None:
        """Fast-forward main to a branch."""
        name = self._any_branch()
        head = self._java().refs().get(name).snapshotId()
        if not self._iceberg.util.SnapshotUtil.isAncestorOf(self._java(), head, self._current()):
            raise NotNow("main is not an ancestor of the branch")
        self._java().manageSnapshots().fastForwardBranch("main", name).commit()
        self._becomes(self._branches[name])

    def _drop_ref(self) -> None:
        manage = self._java().manageSnapshots()
        if self._tags:
            name = next(iter(self._tags))
            manage.removeTag(name).commit()
            del self._tags[name]
        else:
            name = self._any_branch()
            manage.removeBranch(name).commit()
            del self._branches[name]

    def _set_aside(self, keys: Sequence[int]) -> None:
        """Write an append that no branch has, to be published after an audit."""
        rows = self._rows(keys)
        known = {int(one.snapshotId()) for one in self._java().snapshots()}
        self._spark.conf.set("spark.wap.id", f"w{self._writes}")
        try:
            self._spark.sql(f"insert into {_NAME} {self._frame(rows)}")
        finally:
            self._spark.conf.unset("spark.wap.id")
        [new] = {int(one.snapshotId()) for one in self._java().snapshots()} - known
        self._aside[new] = rows
        self._history[new] = replace(self._now, rows=(*self._now.rows, *rows))

    def _cherry_pick(self) -> None:
        table = self._java()
        number = next((one for one in self._aside if table.snapshot(one) is not None), None)
        if number is None:
            raise NotNow("nothing is set aside")
        table.manageSnapshots().cherrypick(number).commit()
        self._becomes((*self._now.rows, *self._aside.pop(number)))

    def _expire(self) -> None:
        """Let Iceberg's own action keep one snapshot of each branch. `Table.expireSnapshots` would delete a file of
        Puffin as soon as one of its vectors is replaced (1.11.0).
        """
        actions = self._iceberg.spark.actions.SparkActions.get(self._spark._jsparkSession)  # noqa: SLF001
        actions.expireSnapshots(self._java()).expireOlderThan(int(time.time() * 1000)).retainLast(1).execute()

    def _rewrite(self) -> None:
        """Rewrite all files, as Iceberg's own action of another program."""
        actions = self._iceberg.spark.actions.SparkActions.get(self._spark._jsparkSession)  # noqa: SLF001
        actions.rewriteDataFiles(self._java()).option("rewrite-all", "true").execute()

    def _stray(self) -> None:
        """Leave a copy of a data file, as old as what no job commits any more."""
        metadata = metadata_at(self._metadata_location())
        files = [one.told["file_path"] for one in live_files(metadata, metadata["current-snapshot-id"])]
        if not files:
            raise NotNow("there is no data file")
        old = Path(local(files[0]))
        new = old.with_name(f"00000-0-{uuid4()}-00001{old.suffix}")
        shutil.copy(old, new)
        os.utime(new, (time.time() - 4 * 86_400,) * 2)


def _list(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def _sql(value: Any) -> str:
    if value is None:
        return "null"
    return f"'{value}'" if isinstance(value, (str, dt.date)) else str(value)


def _column(condition: str) -> Any:
    from pyspark.sql.functions import expr  # noqa: PLC0415 - imports pyspark

    return expr(condition)
