"""Plain directories on a local disk: the writers append files, overwrite partitions by Spark, or copy files."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
from pyarrow import orc
from pyarrow import parquet as pq

from fuzz.rows.contract import FuzzedTable, Look, NotNow, Rows
from fuzz.rows.files import rows_of
from fuzz.rows.killed import run_killed
from fuzz.rows.program import Act, Mood

_EXPIRED = "2020-01-01"
_PARTITIONS = ("2026-11-01", "2026-11-02", _EXPIRED)
_DAY = 86_400.0
_WRITES = {"append": 10, "append many": 10, "late": 1, "delete partition": 1, "add column": 1}
_JOBS = {"job": 3, "dead job": 1, "overwrite": 2}
_COPIES = {"source": 12, "source many": 9, "copy": 9}
_OURS = {"compaction": 9, "partition_commit": 3, "ttl": 2, "orphans": 2}
_POINTS = ("proposed", "proposed", "exchanged", "dropped", "published", "deleting")
"""Where a run is held besides its steps."""
_OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "compaction": (
        {"min_input_files": 2},
        {"min_input_files": 2, "target_file_size": "1KiB"},
        {"min_input_files": 3, "max_partitions": 1},
        {},
    ),
    "partition_commit": ({}, {"max_partitions": 1}),
    "ttl": ({"retain": "365d"},),
    "orphans": ({"unchanged_for": "1h"},),
}


class DirectoryRows:
    """Draws kinds of directories and acts: fulfils `RowsFormat`."""

    name = "directory"
    spark: Mapping[str, str] = {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}
    services = frozenset(_OURS)

    def draw(self, chance: Random) -> tuple[Mapping[str, Any], Sequence[Act]]:
        """Return the kind of a directory, and acts."""
        kind = {
            "files": chance.choice(("parquet", "parquet", "orc", "avro", "csv", "json")),
            "extension": chance.random() < 0.5,
            "copied": chance.random() < 0.2,
        }
        return kind, list(_Draws(kind, chance).acts(chance.randrange(12, 36)))

    def make(self, kind: Mapping[str, Any], folder: Path, session: Any) -> FuzzedTable:
        """Return an empty directory."""
        return DirectoryRowsTable(kind, folder / "t", session)


ROWS = DirectoryRows()


class _Draws:
    def __init__(self, kind: Mapping[str, Any], chance: Random) -> None:
        self._kind, self._chance = kind, chance
        usual = _COPIES if kind["copied"] else {**_WRITES, **_JOBS}
        self._writes = Mood.drawn(chance, usual).weights
        ours = {f"our {name}": weight for name, weight in _OURS.items()}
        self._mood = {**self._writes, **Mood.drawn(chance, ours).weights}

    def acts(self, number: int) -> Iterator[Act]:
        first = "source" if self._kind["copied"] else "append"
        names = Mood(weights={**self._mood, first: max(4, self._mood[first]), "our compaction": 6}).draws(self._chance)
        yield Act(first, {"partition": _EXPIRED, "rows": 2})
        for _ in range(number):
            yield from self._drawn(next(names))

    def _drawn(self, name: str) -> Iterator[Act]:
        chance = self._chance
        part = chance.choice(_PARTITIONS)
        if name.startswith("our "):
            yield from self._service(name.removeprefix("our "))
        elif name in ("append many", "source many"):
            for _ in range(chance.randrange(2, 6)):
                yield Act(name.removesuffix(" many"), {"partition": part, "rows": chance.randrange(1, 6)})
        elif name == "job":
            yield Act("begin job", {"partition": part, "rows": chance.randrange(1, 6)})
            if chance.random() < 0.5:
                yield from self._service(chance.choice(sorted(_OURS)))
            yield Act("end job")
        elif name in ("copy", "add column"):
            yield Act(name)
        else:
            yield Act(name, {"partition": part, "rows": chance.randrange(1, 6)})

    def _service(self, service: str) -> Iterator[Act]:
        chance = self._chance
        files = {"files": self._kind["files"]} if service == "compaction" else {}
        given = {"service": service, "options": {**chance.choice(_OPTIONS[service]), **files}}
        manner = chance.random()
        if manner < 0.55:
            yield Act("run", given)
        elif manner < 0.65:
            yield Act("run", {**given, "until": chance.choice(("execute", "commit"))})
        elif manner < 0.85:
            yield Act("killed", {**given, "at": chance.randrange(1, 12)})
        else:
            yield Act("begin", {**given, **chance.choice(({}, {"point": chance.choice(_POINTS)}))})
            first = "source" if self._kind["copied"] else "append"
            names = Mood(weights={**self._writes, first: 4}).draws(chance)
            for _ in range(chance.randrange(1, 4)):
                yield from self._drawn(next(names))
                yield Act("go on")
            yield Act("end")


class DirectoryRowsTable:
    """One directory, its writers and their record: fulfils `FuzzedTable`."""

    catalog = None

    def __init__(self, kind: Mapping[str, Any], path: Path, spark: Any) -> None:
        self._kind, self._path, self._spark = kind, path, spark
        self._columns = ["id", "v"]
        self._rows: dict[str, Rows] = {}
        self._planned: set[Any] | None = None
        self._jobs: list[tuple[Path, str, list[dict[str, Any]]]] = []
        self._sources: dict[str, tuple[bytes, float, str, list[dict[str, Any]]]] = {}
        self._back: set[str] = set()
        """The files that a copying job has brought back."""
        self._writes = 0
        path.mkdir()

    @property
    def location(self) -> str:
        """Return its path."""
        return str(self._path)

    @property
    def options(self) -> Mapping[str, Any]:
        """Return that no job is restored, and that a partition rests at once."""
        return {"restore_horizon": "0s", "quiet_for": "0s", "quiet_intervals": 0}

    def do(self, act: Act) -> None:
        """Do an act of a writer."""
        given = act.given
        writes: Mapping[str, Callable[[], None]] = {
            "append": lambda: self._append(given["partition"], given["rows"]),
            "late": lambda: self._append(given["partition"], given["rows"], at=time.time() - _DAY),
            "delete partition": lambda: self._delete(given["partition"]),
            "add column": self._add_column,
            "begin job": lambda: self._begin_job(given["partition"], given["rows"]),
            "end job": self._end_job,
            "dead job": lambda: self._dead_job(given["partition"]),
            "overwrite": lambda: self._overwrite(given["partition"], given["rows"]),
            "source": lambda: self._source(given["partition"], given["rows"]),
            "copy": self._copy,
            "killed": lambda: self._killed(given),
        }
        writes[act.name]()

    def looks(self) -> Iterable[Look]:
        """Return what a reader of single files, Spark and duckdb must find."""
        self._forget_expired()
        expected: Rows = sum(self._rows.values(), Counter())
        yield Look(by="files", find=self._by_files, expected=expected)
        if self._kind["files"] != "avro":
            yield Look(by="spark", find=self._by_spark, expected=expected)
        if self._kind["files"] not in ("avro", "orc"):
            yield Look(by="duckdb", find=self._by_duckdb, expected=expected)
        stay = Counter((one,) for one in self._back)
        yield Look(
            by="what came back", find=lambda: Counter(one for one in stay if self._is_there(*one)), expected=stay
        )

    def held(self, *, is_held: bool) -> None:
        """Note what an expired partition has, if a run has made its plan: what is written from now on must stay."""
        self._forget_expired()
        if is_held:
            self._planned = {row[1] for row in self._rows.get(_EXPIRED, ())}
        elif self._folder(_EXPIRED).exists() or not self._rows.get(_EXPIRED):
            self._planned = None

    def _forget_expired(self) -> None:
        """Leave out expired partitions that a ttl has deleted whole."""
        if not self._folder(_EXPIRED).exists():
            rows, planned = self._rows.pop(_EXPIRED, Counter()), self._planned
            if planned is not None:
                self._rows[_EXPIRED] = Counter({row: n for row, n in rows.items() if row[1] not in planned})
            self._back = {one for one in self._back if not one.startswith(f"dt={_EXPIRED}/")}

    # -- readers

    def _files(self) -> list[Path]:
        found = self._path.glob("dt=*/*")
        return [file for file in found if file.is_file() and file.name[0] not in "._"]

    def _is_there(self, path: str) -> bool:
        return (self._path / path).exists()

    def _told(self, partition: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
        return (partition, *(row.get(name) for name in self._columns))

    def _by_files(self) -> Rows:
        found: Rows = Counter()
        for file in self._files():
            found.update(
                self._told(file.parent.name.removeprefix("dt="), row) for row in rows_of(file, self._kind["files"])
            )
        return found

    def _by_spark(self) -> Rows:
        if not self._files():
            return Counter()
        schema = ", ".join(f"{name} {'bigint' if name == 'id' else 'string'}" for name in (*self._columns, "dt"))
        paths = [str(one) for one in self._path.glob("dt=*")]
        read = self._spark.read.schema(schema).option("basePath", self.location).format(self._kind["files"])
        return Counter(tuple(row) for row in read.load(paths).select("dt", *self._columns).collect())

    def _by_duckdb(self) -> Rows:
        files = [str(file) for file in self._files()]
        if not files:
            return Counter()
        kind = self._kind["files"]
        columns = "{'id': 'BIGINT', 'v': 'VARCHAR', 'w': 'VARCHAR'}"
        options = {
            "parquet": "union_by_name=true",
            "json": f"format='newline_delimited', columns={columns}",
            "csv": "header=false, columns={'id': 'BIGINT', 'v': 'VARCHAR'}",
        }
        with duckdb.connect() as database:
            read = f"read_{kind}({files!r}, hive_partitioning=true, hive_types_autocast=false, {options[kind]})"
            said = database.execute(f"select * from {read}")
            names = [one[0] for one in said.description or ()]
            rows = [dict(zip(names, row, strict=True)) for row in said.fetchall()]
        return Counter(self._told(row["dt"], row) for row in rows)

    # -- writers

    def _folder(self, partition: str) -> Path:
        return self._path / f"dt={partition}"

    def _made(self, count: int) -> list[dict[str, Any]]:
        self._writes += 1
        texts = {name: f"{name}{self._writes}" for name in self._columns if name != "id"}
        return [{"id": self._writes * 100 + number, **texts} for number in range(count)]

    def _name(self) -> str:
        return f"part-{self._writes}" + (f".{self._kind['files']}" if self._kind["extension"] else "")

    def _content(self, rows: Sequence[Mapping[str, Any]], file: Path) -> None:
        match self._kind["files"]:
            case "parquet":
                pq.write_table(pa.Table.from_pylist(list(rows)), file)
            case "orc":
                orc.write_table(pa.Table.from_pylist(list(rows)), file)
            case "avro":
                fields = [
                    {"name": name, "type": ["null", "long" if name == "id" else "string"]} for name in self._columns
                ]
                with file.open("wb") as open_:
                    fastavro.writer(open_, {"type": "record", "name": "r", "fields": fields}, rows)
            case "json":
                file.write_text("".join(json.dumps(row) + "\n" for row in rows))
            case _:
                file.write_text("".join(f"{row['id']},{row['v']}\n" for row in rows))

    def _keep(self, partition: str, rows: Iterable[Mapping[str, Any]]) -> None:
        told = Counter(self._told(partition, row) for row in rows)
        self._rows[partition] = self._rows.get(partition, Counter()) + told

    def _append(self, partition: str, count: int, *, at: float | None = None) -> None:
        rows, folder = self._made(count), self._folder(partition)
        folder.mkdir(exist_ok=True)
        hidden = folder / f".{self._name()}.inprogress.{self._writes}"
        self._content(rows, hidden)
        if at is not None:
            os.utime(hidden, (at, at))
        hidden.rename(folder / self._name())
        self._keep(partition, rows)

    def _delete(self, partition: str) -> None:
        if not self._folder(partition).exists():
            raise NotNow("there is no such partition")
        shutil.rmtree(self._folder(partition))
        self._rows.pop(partition, None)

    def _add_column(self) -> None:
        if self._kind["files"] == "csv" or "w" in self._columns:
            raise NotNow("it has no more columns")
        self._columns.append("w")
        self._rows = {part: Counter({(*row, None): n for row, n in rows.items()}) for part, rows in self._rows.items()}

    def _begin_job(self, partition: str, count: int) -> None:
        rows = self._made(count)
        place = self._path / "_temporary" / "0" / f"task_{self._writes}" / self._name()
        place.parent.mkdir(parents=True)
        self._content(rows, place)
        self._jobs.append((place, partition, rows))

    def _end_job(self) -> None:
        if not self._jobs:
            raise NotNow("no job is at work")
        for place, partition, rows in self._jobs:
            self._folder(partition).mkdir(exist_ok=True)
            place.rename(self._folder(partition) / place.name)
            self._keep(partition, rows)
        self._jobs.clear()
        shutil.rmtree(self._path / "_temporary")

    def _dead_job(self, partition: str) -> None:
        """Leave a part and a folder of parts of three days ago."""
        old = (time.time() - 3 * _DAY,) * 2
        part = self._folder(partition) / f".part-dead.inprogress.{self._writes}"
        if not part.parent.exists() or self._jobs:
            raise NotNow("there is no such partition, or another job is at work")
        self._content(self._made(1), part)
        os.utime(part, old)
        staged = self._path / "_temporary" / "0" / "task_dead" / self._name()
        staged.parent.mkdir(parents=True, exist_ok=True)
        self._content(self._made(1), staged)
        for one in (staged, *list(staged.parents)[:3]):
            os.utime(one, old)

    def _overwrite(self, partition: str, count: int) -> None:
        """Replace a partition by Spark's dynamic overwrite."""
        if self._kind["files"] == "avro":
            raise NotNow("this Spark has no Avro")
        rows = self._made(count)
        schema = ", ".join(f"{name} {'bigint' if name == 'id' else 'string'}" for name in (*self._columns, "dt"))
        frame = self._spark.createDataFrame([(*row.values(), partition) for row in rows], schema).coalesce(1)
        writer = frame.write.format(self._kind["files"]).mode("overwrite").partitionBy("dt")
        writer.option("partitionOverwriteMode", "dynamic").save(self.location)
        self._rows[partition] = Counter()
        self._keep(partition, rows)

    def _source(self, partition: str, count: int) -> None:
        """Add a file at the source, from which a job copies."""
        rows = self._made(count)
        file = self._path.parent / "one"
        self._content(rows, file)
        at = time.time()
        self._sources[f"dt={partition}/{self._name()}"] = (file.read_bytes(), at, partition, rows)

    def _copy(self) -> None:
        """Copy what is not at its place, with the times of the source."""
        new = {path: told for path, told in self._sources.items() if not self._is_there(path)}
        if not new:
            raise NotNow("everything is there")
        for path, (content, at, partition, rows) in new.items():
            file = self._path / path
            file.parent.mkdir(exist_ok=True)
            hidden = file.with_name(f".{file.name}.tmp")
            hidden.write_bytes(content)
            os.utime(hidden, (at, at))
            hidden.rename(file)
            compacted = [one.stat().st_mtime for one in file.parent.glob("part-lakewarden-*")]
            if compacted and at < max(compacted):
                self._back.add(path)
            self._keep(partition, rows)

    def _killed(self, given: Mapping[str, Any]) -> None:
        if given["service"] == "compaction" and self._kind["files"] in ("parquet", "orc"):
            raise NotNow("a process without Spark rewrites no such files")
        run_killed("directory", self, given, by_fork=True)
