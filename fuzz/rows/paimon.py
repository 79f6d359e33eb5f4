"""Tables of Paimon: the writers are Paimon's core, in the JVM of the session."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from fuzz.rows.contract import FuzzedTable, Look, NotNow, Rows, UnreadableError
from fuzz.rows.files import rows_of
from fuzz.rows.killed import run_killed
from fuzz.rows.program import Act, Mood

_KEYS = 12
_EXPIRED = "2020-01-01"
_PARTITIONS = ("2026-11-01", _EXPIRED)
_AGGREGATION = {"merge-engine": "aggregation", "fields.a.aggregate-function": "sum"}
_ENGINES: Mapping[str, Mapping[str, str]] = {
    "append": {},
    "deduplicate": {},
    "partial": {"merge-engine": "partial-update"},
    "partial removes": {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
    "aggregation": _AGGREGATION,
    "aggregation removes": {
        **_AGGREGATION,
        "fields.b.aggregate-function": "listagg",
        "aggregation.remove-record-on-delete": "true",
    },
}
_READS: Mapping[str, Mapping[str, str]] = {
    "plain": {},
    "input": {"changelog-producer": "input"},
    "lookup": {"changelog-producer": "lookup", "lookup.merge-records-threshold": "2"},
    "full": {"changelog-producer": "full-compaction"},
    "vectors": {"deletion-vectors.enabled": "true"},
    "forced": {"compaction.force-up-level-0": "true"},
}
_WRITES = {"upsert": 9, "upsert one by one": 8, "overwrite": 1}
_OF_ENGINES = {
    "append": {"prepare": 2, "commit": 3},
    "deduplicate": {"delete": 5},
    "partial removes": {"delete": 5},
    "aggregation": {"retract": 5},
    "aggregation removes": {"delete": 5},
}
_EVOLVES = {"add column": 1, "rename column": 1, "drop column": 1}
_OPERATORS = {"roll back": 2, "tag": 2, "drop tag": 1, "branch": 1, "compact": 1, "expire": 1, "stray": 1}
_OURS = {"compaction": 9, "clean": 5, "archive": 2, "ttl": 1, "orphans": 2, "partition_commit": 1}
_POINTS = {"clean": ("expiring",), "orphans": ("deleting",)}
"""Where a run of a service is held besides its steps. While a snapshot is deleted, no one can read it."""
_OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "compaction": (
        {},
        {"strategy": "minor"},
        {"strategy": "minor"},
        {"strategy": "minor", "max_buckets": 1},
        {"max_bytes": "1B"},
    ),
    "clean": (
        {"max_snapshot_age": "0s", "min_snapshots_to_keep": 1},
        {"max_snapshot_age": "0s", "min_snapshots_to_keep": 2, "max_snapshots": 1},
    ),
    "ttl": ({"retain": "365d"},),
    "orphans": ({"older_than": "1d", "unknown_for": "0s"},),
    "partition_commit": ({"idle_time": "0s"},),
}


class PaimonRows:
    """Draws kinds of tables and acts: fulfils `RowsFormat`."""

    name = "paimon"
    spark: Mapping[str, str] = {}
    services = frozenset(_OURS)

    def draw(self, chance: Random) -> tuple[Mapping[str, Any], Sequence[Act]]:
        """Return the kind of a table, and acts."""
        kind = {
            "engine": chance.choice(sorted(_ENGINES)),
            "reads": chance.choice(("plain", "plain", "plain", *_READS)),
            "bucket": chance.choice(("1", "1", "2", "-1")),
            "files": chance.choice(("parquet", "parquet", "avro", "orc")),
            "trigger": chance.choice(("2", "3", "5")),
            "ballast": chance.random() < 0.5,
        }
        if kind["engine"] == "append" or (kind["reads"] == "input" and kind["engine"] != "deduplicate"):
            kind["reads"] = "plain"
        return kind, list(_Draws(kind, chance).acts(chance.randrange(12, 36)))

    def make(self, kind: Mapping[str, Any], folder: Path, session: Any) -> FuzzedTable:
        """Return an empty table."""
        return PaimonRowsTable(kind, folder, session)


ROWS = PaimonRows()


class _Draws:
    def __init__(self, kind: Mapping[str, Any], chance: Random) -> None:
        self._kind, self._chance = kind, chance
        engine = kind["engine"]
        usual = {**_WRITES, **_OF_ENGINES.get(engine, {})}
        evolves = _EVOLVES if engine in ("append", "deduplicate") else {}
        self._writes = Mood.drawn(chance, usual).weights
        ours = {f"our {name}": weight for name, weight in _OURS.items()}
        self._mood = {**self._writes, **Mood.drawn(chance, {**evolves, **_OPERATORS, **ours}).weights}

    def acts(self, number: int) -> Iterator[Act]:
        names = Mood(weights={**self._mood, "upsert": 6, "our compaction": 6}).draws(self._chance)
        yield Act("upsert", {"keys": list(range(_KEYS))})
        if self._kind["ballast"]:
            yield Act("upsert", {"keys": list(range(_KEYS, _KEYS + 2)), "wide": 20_000})
            yield Act("run", {"service": "compaction"})
        for _ in range(number):
            yield from self._drawn(next(names))

    def _drawn(self, name: str) -> Iterator[Act]:
        chance = self._chance
        if name.startswith("our "):
            yield from self._service(name.removeprefix("our "))
        elif name == "upsert one by one":
            for key in chance.sample(range(_KEYS), chance.randrange(3, 7)):
                yield Act("upsert", {"keys": [key], "nulls": chance.random() < 0.3})
        elif name == "stray":  # the first run remembers it, the second one deletes it
            yield Act(name)
            yield from [Act("run", {"service": "orphans", "options": _OPTIONS["orphans"][0]})] * 2
        elif name == "overwrite":
            yield Act(name, {"partition": chance.choice(_PARTITIONS), "keys": self._keys()})
        elif name in ("upsert", "delete", "retract", "prepare"):
            yield Act(name, {"keys": self._keys(), "nulls": chance.random() < 0.3})
        else:
            yield Act(name)

    def _service(self, service: str) -> Iterator[Act]:
        chance = self._chance
        given: dict[str, Any] = {"service": service, "options": dict(chance.choice(_OPTIONS.get(service, ({},))))}
        manner = chance.random()
        if manner < 0.6:
            yield Act("run", given)
        elif manner < 0.68:
            yield Act("run", {**given, "until": chance.choice(("execute", "commit"))})
        elif manner < 0.82:
            yield Act("killed", {**given, "at": chance.randrange(1, 9)})
        else:
            yield Act(
                "begin", {**given, **chance.choice(({}, {"point": chance.choice(_POINTS.get(service, ("proposed",)))}))}
            )
            names = Mood(weights={**self._writes, "upsert": 4, "roll back": 1, "tag": 1}).draws(chance)
            for _ in range(chance.randrange(1, 4)):
                yield from self._drawn(next(names))
                yield Act("go on")
            yield Act("end")

    def _keys(self) -> list[int]:
        return sorted(self._chance.sample(range(_KEYS), self._chance.randrange(1, 5)))


Row = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """The rows, by their keys if they have any, and the columns that are no key."""

    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ("a", "b")

    def told(self) -> Rows:
        return Counter(tuple(row.get(name) for name in ("k", "dt", *self.columns)) for row in self.rows)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Prepared:
    builder: Any
    messages: Any
    kind: str
    rows: tuple[Row, ...]


class PaimonRowsTable:
    """One table, its writers and their record: fulfils `FuzzedTable`."""

    catalog = None

    def __init__(self, kind: Mapping[str, Any], folder: Path, spark: Any) -> None:
        self._kind, self._spark, self._folder = kind, spark, folder
        self._jvm = spark.sparkContext._jvm  # noqa: SLF001
        self._paimon = self._jvm.org.apache.paimon
        self._now = _State()
        self._history: dict[int, _State] = {}
        """The table at each snapshot of a writer."""
        self._tags: dict[str, _State] = {}
        self._branches: dict[str, _State] = {}
        self._prepared: list[_Prepared] = []
        self._writes = self._names = self._last = 0
        self._make()

    # -- what the frame asks for

    @property
    def location(self) -> str:
        """Return its path."""
        return str(self._folder / "db.db" / "t")

    @property
    def options(self) -> Mapping[str, Any]:
        """Return that no writer stops and goes on later."""
        return {
            "left_alone_for": "1m",
            "longest_outage": "0s",
            "flink_restores": "0s",
            "keep_last_flink_commit": False,
        }

    def do(self, act: Act) -> None:
        """Do an act of a writer."""
        acts = self._acts(act.given)
        if act.name != "upsert" and not self._last:
            raise NotNow("nothing was written")
        self._seen_by_ttl()
        before = self._newest()
        acts[act.name]()
        if act.name == "killed":
            return
        self._last = self._newest()
        if self._last > before or act.name == "roll back":
            self._history[self._last] = self._now

    def _acts(self, given: Mapping[str, Any]) -> Mapping[str, Callable[[], Any]]:
        nulls = bool(given.get("nulls"))
        return {
            "upsert": lambda: self._write("INSERT", self._rows(given["keys"], nulls=nulls, wide=given.get("wide", 0))),
            "delete": lambda: self._delete(given["keys"]),
            "retract": lambda: self._retract(given["keys"]),
            "overwrite": lambda: self._overwrite(given["partition"], given["keys"]),
            "prepare": lambda: self._prepare(self._rows(given["keys"], nulls=nulls)),
            "commit": self._commit_prepared,
            "add column": self._add_column,
            "rename column": self._rename_column,
            "drop column": self._drop_column,
            "roll back": self._roll_back,
            "tag": self._tag,
            "drop tag": self._drop_tag,
            "branch": self._branch,
            "compact": self._compact,
            "expire": self._expire,
            "stray": self._stray,
            "killed": lambda: run_killed("paimon", self, given, self._spark, by_fork=False),
        }

    def looks(self) -> Iterable[Look]:
        """Return what Paimon's reader must find now, in tags, in branches and in older snapshots; and a reader of the
        data files that merges them by itself.
        """
        if not self._last:
            return
        self._seen_by_ttl()
        shown = self._kind["reads"] != "vectors" or all(file.level() for _, file in self._live())
        if shown:
            yield Look(by="paimon", find=lambda: self._read({}, self._now), expected=self._now.told())
        if shown and self._kind["engine"] in ("append", "deduplicate"):
            yield Look(by="files", find=self._by_files, expected=self._now.told())
        if self._kind["reads"] == "vectors":
            return
        for name, state in self._tags.items():
            yield self._look("tag", {"scan.tag-name": name}, state)
        for name, state in self._branches.items():
            yield self._look("branch", {}, state, name)
        kept = {int(one.name.removeprefix("snapshot-")) for one in Path(self.location, "snapshot").glob("snapshot-*")}
        for number in sorted(kept & self._history.keys())[:2]:
            yield self._look("time travel", {"scan.snapshot-id": str(number)}, self._history[number])

    def _look(self, by: str, options: Mapping[str, str], state: _State, branch: str | None = None) -> Look:
        return Look(by=by, find=lambda: self._read(options, state, branch), expected=state.told())

    def _seen_by_ttl(self) -> None:
        """Leave out expired partitions that a ttl has dropped whole, by a snapshot that bears its name."""
        newest = self._newest()
        new = [self._snapshot(number) for number in range(self._last + 1, newest + 1)]
        if any(one["commitKind"] == "OVERWRITE" and one["commitUser"].startswith("lakewarden-") for one in new):
            found = self._read({}, self._now)
            if not any(row[1] == _EXPIRED for row in found):
                self._now = replace(self._now, rows=tuple(row for row in self._now.rows if row["dt"] != _EXPIRED))
        self._last = max(self._last, newest)

    # -- the table

    def _list(self, *items: Any) -> Any:
        found = self._jvm.java.util.ArrayList()
        for one in items:
            found.add(one)
        return found

    def _map(self, items: Mapping[str, str]) -> Any:
        found = self._jvm.java.util.HashMap()
        for key, value in items.items():
            found.put(key, value)
        return found

    def _make(self) -> None:
        paimon, kind = self._paimon, self._kind
        options = paimon.options.Options()
        options.set("warehouse", str(self._folder))
        hadoop = self._spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
        self._catalog = paimon.catalog.CatalogFactory.createCatalog(
            paimon.catalog.CatalogContext.create(options, hadoop)
        )
        self._catalog.createDatabase("db", bool(1))
        types = paimon.types.DataTypes
        made = paimon.schema.Schema.newBuilder().column("k", types.INT()).column("dt", types.STRING())
        made = made.column("a", types.INT()).column("b", types.STRING()).partitionKeys(self._list("dt"))
        if self._keyed:
            made = made.primaryKey(self._list("k", "dt"))
        own = {
            "write-only": "true",
            "bucket": kind["bucket"],
            "file.format": kind["files"],
            **({"file.compression": "deflate"} if kind["files"] == "avro" else {}),  # fastavro alone reads no zstd
            "num-sorted-run.compaction-trigger": kind["trigger"],
            "compaction.min.file-num": kind["trigger"],
            "manifest.merge-min-count": "3",
            **_ENGINES[kind["engine"]],
            **_READS[kind["reads"]],
        }
        if not self._keyed and kind["bucket"] != "-1":
            own["bucket-key"] = "k"
        for key, value in own.items():
            made = made.option(key, value)
        self._named = paimon.catalog.Identifier.create("db", "t")
        self._catalog.createTable(self._named, made.build(), bool(0))

    @property
    def _keyed(self) -> bool:
        return bool(self._kind["engine"] != "append")

    def _table(self, options: Mapping[str, str] | None = None) -> Any:
        return self._catalog.getTable(self._named).copy(self._map(options or {}))

    def _newest(self) -> int:
        numbers = [int(one.name.split("-")[1]) for one in Path(self.location, "snapshot").glob("snapshot-*")]
        return max(numbers, default=0)

    def _snapshot(self, number: int) -> Mapping[str, Any]:
        try:
            told: Mapping[str, Any] = json.loads(Path(self.location, "snapshot", f"snapshot-{number}").read_text())
        except FileNotFoundError:
            return {"commitKind": "", "commitUser": ""}
        return told

    def _disk(self) -> Any:
        return self._paimon.disk.IOManager.create(str(self._folder / "io"))

    # -- readers

    def _read(self, options: Mapping[str, str], state: _State, branch: str | None = None) -> Rows:
        table = self._table({"lookup.merge-records-threshold": "1000", **options})
        if branch is not None:
            table = table.switchToBranch(branch)
        builder, found = self._paimon.table.source.ReadBuilderImpl(table), list[tuple[Any, ...]]()
        names = [str(field.name()) for field in table.rowType().getFields()]
        places = [names.index(name) for name in ("k", "dt", *state.columns)]
        for split in builder.newScan().plan().splits():
            reader = builder.newRead().withIOManager(self._disk()).createReader(split)
            rows = self._paimon.reader.RecordReaderIterator(reader)
            while rows.hasNext():
                row = rows.next()
                found.append(tuple(self._value(row, at, names[at]) for at in places))
            rows.close()
        return Counter(found)

    def _value(self, row: Any, at: int, name: str) -> Any:
        if row.isNullAt(at):
            return None
        return int(row.getInt(at)) if name in ("k", "a") else str(row.getString(at).toString())

    def _live(self) -> list[tuple[Any, Any]]:
        splits = self._table().newSnapshotReader().read().dataSplits()
        return [(split, file) for split in splits for file in split.dataFiles()]

    def _by_files(self) -> Rows:
        """Merge the data files in Python: of each key the row with the highest number counts."""
        if self._kind["reads"] == "vectors":
            raise UnreadableError("the files have rows that deletion vectors take away")
        schemas: dict[int, Mapping[int, str]] = {}
        newest = {name: number for number, name in self._schema(int(self._table().schema().id()), schemas).items()}
        rows: dict[Any, tuple[int, int, tuple[Any, ...]]] = {}
        for split, file in self._live():
            place = Path(str(split.bucketPath()), str(file.fileName()))
            names = self._schema(int(file.schemaId()), schemas)
            for number, row in enumerate(rows_of(place, self._kind["files"])):
                told = tuple(row.get(names.get(newest[name], "")) for name in ("k", "dt", *self._now.columns))
                at = row.get("_SEQUENCE_NUMBER", 0)
                key = told[:2] if self._keyed else (str(place), number)
                if key not in rows or rows[key][0] < at:
                    rows[key] = (at, row.get("_VALUE_KIND", 0), told)
        return Counter(told for _, kind, told in rows.values() if kind in (0, 2))

    def _schema(self, number: int, known: dict[int, Mapping[int, str]]) -> Mapping[int, str]:
        if number not in known:
            told = json.loads(Path(self.location, "schema", f"schema-{number}").read_text())
            known[number] = {field["id"]: field["name"] for field in told["fields"]}
        return known[number]

    # -- writers

    def _rows(self, keys: Sequence[int], *, nulls: bool = False, wide: int = 0) -> tuple[Row, ...]:
        """Return new rows. With `wide` they are larger than all others, so that Paimon's own choice leaves them out."""
        self._writes += 1
        values: dict[str, Any] = {
            name: self._writes if name == "a" else f"{name}{self._writes}" for name in self._now.columns
        }
        if wide:
            values["b"] = Random(self._writes).randbytes(wide).hex()
        if nulls:
            values["a"] = None
        return tuple({"k": key, "dt": _PARTITIONS[key % 2], **values} for key in keys)

    def _filled(self, builder: Any, kind: str, rows: Sequence[Row], table: Any) -> Any:
        names = [str(field.name()) for field in table.rowType().getFields()]
        writing = builder.newWrite()
        for row in rows:
            made = self._paimon.data.GenericRow(getattr(self._paimon.types.RowKind, kind), len(names))
            for at, name in enumerate(names):
                value = row.get(name)
                text = self._paimon.data.BinaryString.fromString
                made.setField(at, text(value) if isinstance(value, str) else value)
            writing.write(made, *([row["k"] % 2] if self._keyed and self._kind["bucket"] == "-1" else []))
        writing.withIOManager(self._disk())
        return writing.prepareCommit()

    def _write(self, kind: str, rows: Sequence[Row]) -> None:
        if not rows:
            raise NotNow("no row matches")
        table = self._table()
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(table)
        messages = self._filled(builder, kind, rows, table)
        self._committed(_Prepared(builder=builder, messages=messages, kind=kind, rows=tuple(rows)))

    def _committed(self, one: _Prepared) -> None:
        commit = one.builder.newCommit()
        commit.commit(one.messages)
        commit.close()
        self._merge(one.kind, one.rows)

    def _merge(self, kind: str, rows: Sequence[Row]) -> None:
        """Do to the record what Paimon's merge engine is told to do."""
        if not self._keyed:
            self._now = replace(self._now, rows=(*self._now.rows, *rows))
            return
        known = {(row["k"], row["dt"]): row for row in self._now.rows}
        for row in rows:
            key = (row["k"], row["dt"])
            merged = self._merged(known.pop(key, None), row, kind)
            if merged is not None:
                known[key] = merged
        self._now = replace(self._now, rows=tuple(known.values()))

    def _merged(self, old: Row | None, row: Row, kind: str) -> Row | None:
        engine = self._kind["engine"]
        if kind == "DELETE":
            return None
        if engine == "deduplicate" or old is None:
            return row
        if kind == "UPDATE_BEFORE":  # of an aggregation alone
            return {**old, "a": (old["a"] or 0) - row["a"], "b": None}
        new = {**old, **{name: value for name, value in row.items() if value is not None}}
        if engine.startswith("aggregation"):
            told = [one["a"] for one in (old, row) if one["a"] is not None]
            new["a"] = sum(told) if told else None
        if engine == "aggregation removes":
            new["b"] = ",".join(one["b"] for one in (old, row) if one["b"] is not None)
        return new

    def _known(self, keys: Sequence[int]) -> list[Row]:
        return [row for row in self._now.rows if row["k"] in keys]

    def _delete(self, keys: Sequence[int]) -> None:
        if self._kind["engine"] in ("partial", "aggregation"):
            raise NotNow("the merge engine takes no deletes")
        self._write("DELETE", self._known(keys))

    def _retract(self, keys: Sequence[int]) -> None:
        if self._kind["engine"] != "aggregation":
            raise NotNow("the merge engine takes no retractions")
        self._write("UPDATE_BEFORE", [row for row in self._known(keys) if None not in row.values()])

    def _overwrite(self, partition: str, keys: Sequence[int]) -> None:
        rows = [row for row in self._rows(keys) if row["dt"] == partition]
        if not rows:
            raise NotNow("no key is of the partition")
        table = self._table()
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(table).withOverwrite(self._map({"dt": partition}))
        messages = self._filled(builder, "INSERT", rows, table)
        self._now = replace(self._now, rows=tuple(row for row in self._now.rows if row["dt"] != partition))
        self._committed(_Prepared(builder=builder, messages=messages, kind="INSERT", rows=tuple(rows)))

    def _prepare(self, rows: Sequence[Row]) -> None:
        """Write files, and commit them later. Their numbers are those of now: another write of a key may come first."""
        if self._keyed:
            raise NotNow("which of two rows with one number is the newer is not defined")
        table = self._table()
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(table)
        messages = self._filled(builder, "INSERT", rows, table)
        self._prepared.append(_Prepared(builder=builder, messages=messages, kind="INSERT", rows=tuple(rows)))

    def _commit_prepared(self) -> None:
        if not self._prepared:
            raise NotNow("nothing is prepared")
        self._committed(self._prepared.pop())

    # -- schemas

    def _alter(self, change: Any, columns: Sequence[str], names: Mapping[str, str]) -> None:
        self._prepared.clear()
        self._catalog.alterTable(self._named, self._list(change), bool(0))
        rows = tuple(
            {names.get(name, name): value for name, value in row.items() if names.get(name, name)}
            for row in self._now.rows
        )
        self._now = _State(rows=rows, columns=tuple(columns))

    def _add_column(self) -> None:
        self._names += 1
        name = "b" if "b" not in self._now.columns else f"c{self._names}"
        change = self._paimon.schema.SchemaChange.addColumn(name, self._paimon.types.DataTypes.STRING())
        self._alter(change, (*self._now.columns, name), {})

    def _last_text(self) -> str:
        texts = [name for name in self._now.columns if name != "a"]
        if not texts:
            raise NotNow("too few columns")
        return texts[-1]

    def _rename_column(self) -> None:
        self._names += 1
        old, new = self._last_text(), f"r{self._names}"
        columns = [new if name == old else name for name in self._now.columns]
        self._alter(self._paimon.schema.SchemaChange.renameColumn(old, new), columns, {old: new})

    def _drop_column(self) -> None:
        old = self._last_text()
        columns = [name for name in self._now.columns if name != old]
        self._alter(self._paimon.schema.SchemaChange.dropColumn(old), columns, {old: ""})

    # -- operators

    def _roll_back(self) -> None:
        kept = [number for number in self._history if Path(self.location, "snapshot", f"snapshot-{number}").exists()]
        kept = [number for number in kept if self._history[number].columns == self._now.columns]
        if len(kept) < 2:
            raise NotNow("there is no snapshot to go back to")
        number = sorted(kept)[-2]
        self._table().rollbackTo(number)
        self._prepared.clear()
        self._now = self._history[number]
        self._history = {one: state for one, state in self._history.items() if one <= number}
        tags = Path(self.location, "tag")
        self._tags = {name: state for name, state in self._tags.items() if (tags / f"tag-{name}").exists()}

    def _tag(self) -> None:
        """Make a tag. A snapshot has the columns that it was made with."""
        state = self._history.get(self._last)  # None for a snapshot of ours
        if state is None and self._snapshot(self._last)["schemaId"] != self._table().schema().id():
            raise NotNow("the columns have been changed since our snapshot")
        self._names += 1
        name = f"t{self._names}"
        self._table().createTag(name)
        self._tags[name] = state or self._now

    def _drop_tag(self) -> None:
        name = next((one for one in self._tags if one not in self._branches), None)
        if name is None:
            raise NotNow("there is no tag")
        self._table().deleteTag(name)
        del self._tags[name]

    def _branch(self) -> None:
        name = next((one for one in self._tags if one not in self._branches), None)
        number = None if name is None else json.loads(Path(self.location, "tag", f"tag-{name}").read_text())["id"]
        if name is None or not Path(self.location, "snapshot", f"snapshot-{number}").exists():
            raise NotNow("there is no tag with a snapshot, which Paimon copies")
        self._table().createBranch(name, name)
        self._branches[name] = self._tags[name]

    def _compact(self) -> None:
        """Compact in full, as another program. It has the threshold of a reader: below it Paimon loses rows (#9279)."""
        if not self._keyed:
            raise NotNow("such tables are compacted by tasks")
        options = {"write-only": "false", "lookup.merge-records-threshold": "1000"}
        builder = self._paimon.table.sink.BatchWriteBuilderImpl(self._table(options))
        writing = builder.newWrite()
        writing.withIOManager(self._disk())
        for split in self._table().newSnapshotReader().read().dataSplits():
            writing.compact(split.partition(), split.bucket(), bool(1))
        commit = builder.newCommit()
        commit.commit(writing.prepareCommit())
        commit.close()
        writing.close()

    def _expire(self) -> None:
        """Let Paimon's own expiry keep one snapshot."""
        zero = self._jvm.java.time.Duration.ofDays(0)
        config = self._paimon.options.ExpireConfig.builder().snapshotRetainMax(1).snapshotRetainMin(1)
        self._table().newExpireSnapshots().config(config.snapshotTimeRetain(zero).build()).expire()

    def _stray(self) -> None:
        """Leave a copy of a data file, as old as what no job commits any more."""
        live = self._live()
        if not live:
            raise NotNow("there is no data file")
        split, file = live[0]
        old = Path(str(split.bucketPath()), str(file.fileName()))
        new = old.with_name(re.sub(r"^data-[0-9a-f]{8}", f"data-{self._writes:08x}", old.name))
        shutil.copy(old, new)
        os.utime(new, (time.time() - 4 * 86_400,) * 2)
