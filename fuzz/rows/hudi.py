"""Tables of Hudi 1.2: the writers are Spark's datasource, its SQL, and Hudi's own client."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from hudi import HudiTable

from fuzz.rows.contract import FuzzedTable, Look, NotNow, Rows, UnreadableError
from fuzz.rows.program import Act, Mood

_KEYS = 16
_KEEP = "hoodie.clean.commits.retained"
_WITH: Mapping[str, Mapping[str, str]] = {
    "compaction": {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "planned compaction": {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"},
    "clean": {"hoodie.clean.automatic": "true", _KEEP: "1"},
    "archive": {
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        _KEEP: "1",
    },
    "death": {
        "hoodie.precommit.validators": "org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator",
        "hoodie.precommit.validators.single.value.sql.queries": "select count(*) from <TABLE_NAME>#-1",
    },
}
"""What a write does besides. A `death` is a validator that fails when all files are written and none is committed."""

_WRITES = {"upsert": 10, "update one by one": 4, "insert": 2, "delete": 3, "upsert with": 2, "death": 1}
_OVERWRITES = {"delete partition": 4, "insert overwrite": 1, "insert overwrite table": 1}
_DESTROYS = ("delete", "roll back", "restore", *_OVERWRITES)
"""After these a service of ours is likely: it takes for gone what a writer may bring back."""
_SQL = {"merge": 3, "add column": 1}
_EVOLVES = {"rename column": 1, "drop column": 1, "widen column": 1}
_OPERATORS = {"roll back": 2, "savepoint": 1, "restore": 1, "plan": 1}
_OURS = {
    "compaction": 6,
    "clean": 5,
    "archive": 5,
    "clustering": 3,
    "log_compaction": 3,
    "rollback": 2,
    "savepoint": 1,
    "indexing": 1,
    "metadata_validation": 1,
    "metadata_rebuild": 1,
}
_PLAIN = {
    "upsert": 3,
    "update one by one": 3,
    "delete": 2,
    "roll back": 1,
    "plan": 1,
    "our compaction": 3,
    "our clean": 4,
    "our archive": 4,
}
"""The life of most tables. Four of ten programs have no other acts, so these meet in many orders."""
_MERGING = ("our compaction", "our log_compaction")
_NEGLECTED = {"upsert": 3, "update one by one": 3, "our compaction": 3, "our clean": 2, "our archive": 3}
"""The same where one approval never comes, for a long time."""
_OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "compaction": ({}, {"target_io_mb": 1}),
    "log_compaction": ({"log_blocks_threshold": 2},),
    "clean": (
        {"commits_retained": 1},
        {"commits_retained": 1},
        {"commits_retained": 2},
        {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1},
        {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 1},
        {"policy": "KEEP_LATEST_FILE_VERSIONS", "file_versions_retained": 2},
    ),
    "clustering": (
        {"untouched_for": "0s"},
        {"untouched_for": "0s", "sort_columns": ["k"]},
        {"untouched_for": "0s", "layout": "none"},
    ),
    "archive": ({"keep_min_commits": 2, "keep_max_commits": 3}, {"keep_min_commits": 4, "keep_max_commits": 6}),
    "indexing": ({"build": ["bloom_filters"]}, {"build": ["column_stats"], "columns": ["ts"]}),
}
_READ_ONLY_IN_HUDI = re.compile(r"not (yet )?supported|unsupported|Unsupported|not implemented", re.IGNORECASE)
_DONE = re.compile(r"(\d+)(_\d+)?\.(commit|deltacommit|replacecommit)")
_AFTER = re.compile(r"(\d+)(_\d+)?\.(?!rollback|inflight)[a-z]+")
"""What is complete, and would miss a write that is rolled back from below it."""
_REJECTED = re.compile(
    "HoodieClusteringUpdateException|HoodieDeletePartitionPendingTableServiceException|"
    r"second operation = ConcurrentOperation\(actionState=\w+, actionType=(clustering|replacecommit)"
)
"""A pending plan rejects the write, as Hudi documents."""
_NO_TRAVEL = re.compile("HoodieTimeTravelException|Cleaner cleaned up the timestamp")
"""Hudi's query as of a time looks for neither savepoints nor the clean that spared them."""
_GUARDED = "due to heartbeat by concurrent writer"


_BEFORE_A_COMPACTION = 8
"""So many deltacommits of the metadata table are followed by a compaction soon: Hudi makes one after ten."""

_OpenTable: Any = HudiTable  # it has no types


def _usual(kind: Mapping[str, Any]) -> dict[str, int]:
    """Return how often each act is drawn on a table of this kind."""
    usual = {**_WRITES, **_SQL, **_OPERATORS, **{f"our {name}": weight for name, weight in _OURS.items()}}
    if kind["partitions"]:
        usual |= _OVERWRITES
    if kind["evolves"]:
        usual |= _EVOLVES
    return usual


class HudiRows:
    """Draws kinds of tables and acts: fulfils `RowsFormat`."""

    name = "hudi"
    spark: Mapping[str, str] = {
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    services = frozenset(_OURS)

    def draw(self, chance: Random) -> tuple[Mapping[str, Any], Sequence[Act]]:
        """Return the kind of a table, and acts."""
        version = chance.choice((9, 9, 9, 8, 6))
        kind = {
            "type": chance.choice(("MERGE_ON_READ", "MERGE_ON_READ", "COPY_ON_WRITE")),
            "version": version,
            "index": chance.choice(("SIMPLE", "SIMPLE", "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX", "BUCKET")),
            "merge": chance.choice(("EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING")),
            "partitions": chance.choice((0, 1, 2, 2, 3)),
            "complex_key": chance.random() < 0.2,
            "hive_style": chance.random() < 0.3,
            "metadata": chance.random() < 0.5,
            "small_files": chance.random() < 0.4,
            "evolves": chance.random() < 0.15,
        }
        kind["changes"] = version > 6 and not kind["evolves"] and Random(str(kind)).random() < 0.1  # old seeds stay
        if kind["index"] == "RECORD_INDEX":
            kind["metadata"] = True
        return kind, list(_Draws(kind, chance).acts())

    def make(self, kind: Mapping[str, Any], folder: Path, session: Any) -> FuzzedTable:
        """Return a table of this kind, made by the first write."""
        return HudiRowsTable(kind, folder / "t", session)


ROWS = HudiRows()


class _Draws:
    def __init__(self, kind: Mapping[str, Any], chance: Random) -> None:
        self._kind, self._chance = kind, chance
        self._merges = kind["type"] == "MERGE_ON_READ"
        which = chance.random()
        plain, neglected = which < 0.4, 0.25 < which < 0.4
        self._neglected = neglected
        self._number = chance.randrange(16, 32) if plain else chance.randrange(8, 24)
        more = {"delete partition": 1} if kind["partitions"] > 1 else {}
        drawn = _NEGLECTED if neglected else {**_PLAIN, **more} if plain else Mood.drawn(chance, _usual(kind)).weights
        self._mood = {name: weight for name, weight in drawn.items() if self._merges or name not in _MERGING}
        often_left = ("clean",) if plain else ("clean", "compaction", "clustering")
        self._left = {chance.choice(often_left)} if chance.random() < 0.5 or neglected else set()
        """A service with an approval that never comes."""
        clusters = ("CLUSTER",) if self._mood.get("our clustering") else ()  # it rejects writes until it is carried out
        self._plans = (*clusters, "CLEAN", *(("COMPACT", "LOG_COMPACT") if self._merges else ()))
        self._range = range(chance.choice((4, 8, _KEYS)))
        self._last: list[int] = []

    def acts(self) -> Iterator[Act]:
        names = Mood(weights={**self._mood, "upsert": max(2, self._mood["upsert"])}).draws(self._chance)
        yield Act("upsert", {"keys": list(range(self._chance.randrange(4, _KEYS + 1)))})
        ours = {name: weight for name, weight in self._mood.items() if name.startswith("our ") and weight}
        after = Mood(weights=ours).draws(self._chance)
        for _ in range(self._number):
            name = next(names)
            yield from self._drawn(name)
            if name in _DESTROYS and ours and self._chance.random() < 0.5:
                yield from self._drawn(next(after))

    def _drawn(self, name: str) -> Iterator[Act]:
        chance = self._chance
        if name.startswith("our "):
            yield from self._service(name.removeprefix("our "))
        elif name == "update one by one":
            for key in chance.sample(self._range, min(chance.randrange(3, 9), len(self._range))):
                yield Act("upsert", {"keys": [key]})
        elif name == "upsert with":
            besides = [one for one in sorted(_WITH) if one != "death" and (self._merges or "compaction" not in one)]
            yield Act("upsert", {"keys": self._keys(), "with": chance.choice(besides)})
        elif name == "death":
            yield Act("upsert", {"keys": self._keys(), "with": name})
        elif name == "restore":
            yield Act("savepoint")
            ours = "our compaction" if self._merges else "our clustering"
            for act in chance.choices(("upsert", "delete", ours, "our clean"), k=chance.randrange(4)):
                yield from self._drawn(act)
            yield Act(name)
        elif name == "plan":
            yield Act(name, {"service": chance.choice(self._plans)})
        elif name in ("delete partition", "insert overwrite"):
            part = chance.randrange(self._kind["partitions"])
            keys = [] if name == "delete partition" else self._keys()
            yield Act(name, {"partition": part, "keys": keys})
        elif name in (
            "roll back",
            "savepoint",
            "restore",
            "add column",
            "rename column",
            "drop column",
            "widen column",
        ):
            yield Act(name)
        else:
            yield Act(name, {"keys": self._keys()})

    def _service(self, service: str) -> Iterator[Act]:
        chance = self._chance
        given: dict[str, Any] = {"service": service, "options": dict(chance.choice(_OPTIONS.get(service, ({},))))}
        manner = chance.random()
        if service == "rollback":
            yield from self._drawn("death")
        if service in self._left and (self._neglected or chance.random() < 0.8):
            yield Act("run", {**given, "until": "commit" if service in ("clean", "archive") else "execute"})
        elif manner < (0.9 if self._neglected else 0.5):
            yield Act("run", given)
        elif manner < 0.6:
            yield Act("run", {**given, "until": chance.choice(("execute", "commit"))})
        else:
            yield Act("begin", given)
            if manner > 0.85:  # the writers come when its files are written
                yield Act("go on")
            parts = _OVERWRITES if self._kind["partitions"] else {}
            names = Mood(weights={**dict.fromkeys(_WRITES, 2), "roll back": 5, **dict.fromkeys(parts, 1)}).draws(chance)
            for _ in range(chance.randrange(1, 4)):
                yield from self._drawn(next(names))
                yield Act("go on")
            yield Act("end")

    def _keys(self) -> list[int]:
        """Return keys, often of one partition, and often those of the last act: what was deleted comes back, and is
        written again.
        """
        if not self._last or self._chance.random() < 0.6:
            parts = max(1, self._kind["partitions"])
            keys = self._range[self._chance.randrange(parts) :: parts] if self._chance.random() < 0.5 else self._range
            self._last = sorted(self._chance.sample(keys, min(self._chance.randrange(1, 5), len(keys))))
        return self._last


@dataclass(frozen=True, kw_only=True, slots=True)
class _State:
    """The rows by their keys, and the columns with their types."""

    rows: Mapping[int, Mapping[str, Any]]
    columns: Mapping[str, str]

    def found(self) -> Rows:
        return Counter(tuple(row.get(column) for column in self.columns) for row in self.rows.values())


_AT_FIRST = {"k": "string", "p": "string", "ts": "bigint", "v": "string", "w": "string", "n": "int"}
_FIXED = ("k", "p", "ts")


class HudiRowsTable:
    """One table, its writers and their record: fulfils `FuzzedTable`."""

    catalog = None

    def __init__(self, kind: Mapping[str, Any], path: Path, spark: Any) -> None:
        self._kind, self._path, self._spark = kind, path, spark
        self._now = _State(rows={}, columns=_AT_FIRST)
        self._history: list[tuple[str, _State]] = []
        """The table after each commit of a writer, by its instant."""
        self._saved: list[str] = []
        self._writes = 0
        self._known_to_sql = ""
        self._changed_in_part: set[int] = set()
        self._gone_after: set[int] = set()
        """Keys that were deleted after a partial update. Hudi 1.2 alone cannot read them if they come back (run)."""
        self._deleted: set[int] = set()
        self._schema_on_read = False
        self._named = f"rows_{os.getpid()}_{time.monotonic_ns()}"
        for key, value in self._options().items():
            spark.conf.set(key, value)

    @property
    def location(self) -> str:
        """Return its path."""
        return str(self._path)

    @property
    def options(self) -> Mapping[str, Any]:
        """Return the lock that its writers take."""
        return {"lock": {"provider": "filesystem"}, "lock_proof": "trusted", **self._declared()}

    def _declared(self) -> Mapping[str, Any]:
        return {"bucket_index": {"engine": "simple"}} if self._kind["index"] == "BUCKET" else {}

    def do(self, act: Act) -> None:
        """Do an act of a writer."""
        given = act.given
        writes: Mapping[str, Callable[[], None]] = {
            "upsert": lambda: self._upsert(given["keys"], given.get("with")),
            "insert": lambda: self._insert(given["keys"]),
            "delete": lambda: self._delete(given["keys"]),
            "delete partition": lambda: self._delete_partition(given["partition"]),
            "insert overwrite": lambda: self._overwrite(given["keys"], given["partition"]),
            "insert overwrite table": lambda: self._overwrite(given["keys"], None),
            "merge": lambda: self._merge(given["keys"]),
            "add column": self._add_column,
            "rename column": self._rename_column,
            "drop column": self._drop_column,
            "widen column": self._widen_column,
            "roll back": self._roll_back,
            "savepoint": self._savepoint,
            "restore": self._restore,
            "plan": lambda: self._plan(given["service"]),
        }
        if act.name != "upsert" and not self._history:
            raise NotNow("there is no table yet")
        dead = any((self._path / ".hoodie" / ".heartbeat").glob("2*"))
        if dead and self._kind["version"] == 6 and self._kind["metadata"] and act.name != "savepoint":
            raise NotNow("a writer that rolls it back leaves a metadata table that no reader takes (seed 79276, run)")
        before = self._completed()
        try:
            writes[act.name]()
        except NotNow:
            raise
        except Exception as error:
            if _REJECTED.search(str(error)):
                raise NotNow("a pending plan rejects it") from error
            raise
        new = sorted(self._completed() - before)
        if new and act.name not in ("roll back", "restore", "savepoint", "plan"):
            self._history.append((new[0], self._now))

    def looks(self) -> Iterable[Look]:
        """Return what Spark, with and without the metadata table, and hudi-rs must find."""
        if not self._history:
            return
        expected = self._now.found()
        yield Look(by="spark", find=self._by_spark, expected=expected)
        if self._kind["metadata"]:
            yield Look(by="spark by listing", find=lambda: self._by_spark(metadata="false"), expected=expected)
        yield Look(by="hudi-rs", find=self._by_hudi_rs, expected=expected)
        if self._saved:  # no clean may delete what the last savepoint shows
            before = dict(self._history)[self._saved[-1]]
            find = partial(self._as_of, self._saved[-1], before)
            yield Look(by="spark as of a savepoint", find=find, expected=before.found())

    def _by_spark(self, *, metadata: str = "true") -> Rows:
        read = self._spark.read.format("hudi").option("hoodie.metadata.enable", metadata).load(self.location)
        return Counter(tuple(row) for row in read.select(*self._now.columns).collect())

    def _as_of(self, instant: str, state: _State) -> Rows:
        """Read the table as it was when a commit was completed. Before table version 8 that is the commit's time."""
        [name] = [name for name in self._files() if _DONE.fullmatch(name) and name.startswith(instant)]
        time = name.split(".")[0].split("_")[-1]
        read = self._spark.read.format("hudi").option("as.of.instant", time).load(self.location)
        try:
            return Counter(tuple(row) for row in read.select(*state.columns).collect())
        except Exception as error:
            refused = _NO_TRAVEL.search(str(error))
            if refused is None:
                raise
            raise UnreadableError(refused[0]) from error

    def _by_hudi_rs(self) -> Rows:
        found: Rows = Counter()
        if self._schema_on_read:
            raise UnreadableError("hudi-rs reads a renamed or dropped column by its name")
        planned = {name.split(".")[0] for name in self._files() if name.endswith(".compaction.requested")}
        if self._kind["version"] == 6 and planned - self._completed():
            raise UnreadableError("hudi-rs does not see writes after a pending compaction of version 6")
        try:
            for batch in _OpenTable(self.location).read():
                there = set(batch.schema.names)
                columns = [
                    batch.column(name).to_pylist() if name in there else [None] * batch.num_rows
                    for name in self._now.columns
                ]
                found.update(zip(*columns, strict=True))
        except Exception as error:
            if _READ_ONLY_IN_HUDI.search(str(error)):
                raise UnreadableError(str(error)) from error
            raise
        return found

    # -- rows

    def _row(self, key: int) -> dict[str, Any]:
        fixed = {"k": f"k{key}", "p": self._partition(key)}
        return {
            name: fixed.get(name, f"{name}{self._writes}-{key}") if kind == "string" else self._writes
            for name, kind in self._now.columns.items()
        }

    def _partition(self, key: int) -> str:
        return f"p{key % max(1, self._kind['partitions'])}"

    def _keep(self, rows: Mapping[int, Mapping[str, Any]]) -> None:
        self._now = _State(rows=rows, columns=self._now.columns)

    def _made(self, keys: Sequence[int]) -> dict[int, dict[str, Any]]:
        self._writes += 1
        if not (free := [key for key in keys if key not in self._gone_after]):
            raise NotNow("a key that was updated in part and deleted may not come back")
        return {key: self._row(key) for key in free}

    def _save(self, rows: Iterable[Mapping[str, Any]], operation: str, **more: str) -> None:
        schema = ", ".join(f"{name} {kind}" for name, kind in self._now.columns.items())
        frame = self._spark.createDataFrame([tuple(row.values()) for row in rows], schema).coalesce(1)
        options = {**self._options(), "hoodie.datasource.write.operation": operation, **more}
        frame.write.format("hudi").options(**options).mode("append").save(self.location)

    def _upsert(self, keys: Sequence[int], besides: str | None) -> None:
        if besides == "death":
            self._die(self._made(keys))
            return
        made = self._made(keys)
        try:
            self._save(made.values(), "upsert", **_WITH.get(besides or "", {}))
        except Exception as error:
            if besides is None or _GUARDED not in str(error):  # its rows are committed, and its compaction met ours
                raise
        self._keep({**self._now.rows, **made})

    def _die(self, made: Mapping[int, Mapping[str, Any]]) -> None:
        """Leave a write in flight, with a heartbeat that is an hour old.

        Hudi 1.2 alone: an insert that leaves a base file in a merge-on-read group hides the log files of later writes
        from every reader that lists folders, until it is rolled back (run). So a write that dies there only updates.
        """
        if self._kind["type"] == "MERGE_ON_READ":
            made = {key: row for key, row in made.items() if key in self._now.rows}
        if not self._history or not made:
            raise NotNow("there is nothing to write to")
        try:
            self._save(made.values(), "upsert", **_WITH["death"])
        except Exception as error:
            if "alidat" not in str(error):
                raise
        else:
            raise AssertionError("the write did not die")
        for beat in (self._path / ".hoodie" / ".heartbeat").glob("2*"):
            os.utime(beat, (time.time() - 3600,) * 2)

    def _insert(self, keys: Sequence[int]) -> None:
        new = [key for key in keys if key not in self._now.rows]
        if not new:
            raise NotNow("no key is new")
        by_base_files = self._kind["type"] == "MERGE_ON_READ" and self._kind["index"] in ("SIMPLE", "BLOOM")
        if by_base_files and not self._deleted.isdisjoint(new):
            raise NotNow("Hudi 1.2 alone doubles a key that is deleted, inserted, and upserted (seed 79174, run)")
        made = self._made(new)
        self._save(made.values(), "insert")
        self._keep({**self._now.rows, **made})

    def _delete(self, keys: Sequence[int]) -> None:
        self._save(self._made(keys).values(), "delete")
        self._deleted |= set(keys)
        self._gone_after |= self._changed_in_part & set(keys)
        self._keep({key: row for key, row in self._now.rows.items() if key not in keys})

    def _delete_partition(self, number: int) -> None:
        name = f"p{number}"
        if not any(row["p"] == name for row in self._now.rows.values()):
            raise NotNow("the partition is empty")
        folder = f"p={name}" if self._kind["hive_style"] else name
        made = self._made([number])
        self._save(made.values(), "delete_partition", **{"hoodie.datasource.write.partitions.to.delete": folder})
        self._keep({key: row for key, row in self._now.rows.items() if row["p"] != name})

    def _overwrite(self, keys: Sequence[int], partition: int | None) -> None:
        made = {key: row for key, row in self._made(keys).items() if partition is None or row["p"] == f"p{partition}"}
        if not made:
            raise NotNow("no key is of the partition")
        self._save(made.values(), "insert_overwrite" + ("_table" if partition is None else ""))
        stay = {} if partition is None else self._now.rows
        self._keep({**{key: row for key, row in stay.items() if row["p"] != f"p{partition}"}, **made})

    # -- SQL

    def _sql(self, statement: str) -> None:
        if not self._known_to_sql:
            self._spark.sql(f"create table {self._named} using hudi location '{self.location}'")
            self._known_to_sql = self._named
        self._spark.sql(statement)

    @property
    def _partial(self) -> bool:
        kind, damaged = self._kind, ("RECORD_INDEX", "GLOBAL_SIMPLE")
        return bool(kind["version"] >= 8 and kind["index"] not in damaged and not kind["evolves"])

    def _merge(self, keys: Sequence[int]) -> None:
        """Update one column of rows that are there, with a MERGE that names no other. Hudi 1.2 alone: on a table of
        version 6 and under GLOBAL_SIMPLE such a MERGE makes the other columns null, and under the record index the next
        delete fails (run). So there it names all.
        """
        column = next((name for name in self._now.columns if name not in _FIXED), None)
        made = {key: row for key, row in self._made(keys).items() if key in self._now.rows}
        if column is None or not made:
            raise NotNow("no row matches")
        names = ("k", "p", "ts", column) if self._partial else tuple(self._now.columns)
        schema = ", ".join(f"{name} {self._now.columns[name]}" for name in names)
        rows = [tuple(row[name] for name in names) for row in made.values()]
        self._spark.createDataFrame(rows, schema).coalesce(1).createOrReplaceTempView("told")
        and_partition = "and t.p = s.p" if self._kind["partitions"] else ""
        self._spark.conf.set("hoodie.spark.sql.merge.into.partial.updates", str(not self._kind["evolves"]).lower())
        self._sql(
            f"merge into {self._named} t using told s on t.k = s.k {and_partition} "
            f"when matched then update set {', '.join(f't.{name} = s.{name}' for name in names)}"
        )
        if self._partial:
            self._changed_in_part |= set(made)
            self._gone_after |= self._deleted - self._now.rows.keys()  # also beside such a change (seed 79519, run)
        changed = {key: {**self._now.rows[key], **{name: row[name] for name in names}} for key, row in made.items()}
        self._keep({**self._now.rows, **changed})

    def _alter(self, what: str, columns: Mapping[str, str], renamed: Mapping[str, str] | None = None) -> None:
        self._sql(f"alter table {self._named} {what}")
        names = {name: name for name in self._now.columns} | dict(renamed or {})
        self._now = _State(
            rows={
                key: {new: row[old] for old, new in names.items() if new in columns and old in row}
                for key, row in self._now.rows.items()
            },
            columns=columns,
        )

    def _add_column(self) -> None:
        self._writes += 1
        name = next((one for one in ("v", "w") if one not in self._now.columns), f"c{self._writes}")
        self._alter(f"add columns ({name} string)", {**self._now.columns, name: "string"})

    def _changeable(self) -> str:
        """Return the last column that may be dropped or renamed."""
        names = [name for name, kind in self._now.columns.items() if name not in _FIXED and kind == "string"]
        if len(names) < 2:
            raise NotNow("too few columns")
        return names[0]

    def _rename_column(self) -> None:
        old, self._schema_on_read = self._changeable(), True
        new = f"{old}r"
        columns = {new if name == old else name: kind for name, kind in self._now.columns.items()}
        self._alter(f"rename column {old} to {new}", columns, {old: new})

    def _drop_column(self) -> None:
        old, self._schema_on_read = self._changeable(), True
        self._alter(f"drop column {old}", {name: kind for name, kind in self._now.columns.items() if name != old})

    def _widen_column(self) -> None:
        if self._now.columns.get("n") != "int":
            raise NotNow("it is wide")
        self._alter("alter column n type bigint", {**self._now.columns, "n": "bigint"})

    # -- Hudi's client

    @contextlib.contextmanager
    def _client(self, **more: str) -> Iterator[Any]:
        jvm = self._spark.sparkContext._jvm  # noqa: SLF001
        properties = jvm.java.util.Properties()
        for key, value in {**self._options(), **more}.items():
            properties.setProperty(key, value)
        hudi = jvm.org.apache.hudi
        config = hudi.config.HoodieWriteConfig.newBuilder().withPath(self.location).withProps(properties).build()
        engine = hudi.client.common.HoodieSparkEngineContext(self._spark.sparkContext._jsc)  # noqa: SLF001
        client = hudi.client.SparkRDDWriteClient(engine, config)
        with contextlib.closing(client):
            yield client

    def _roll_back(self) -> None:
        """Roll the last write back, if nothing but plans came after it. Hudi refuses to, once the metadata
        table was compacted after the write ("earlier than the latest compaction", seed 50010).
        """
        last = self._history[-1][0]
        after = [match[1] for name in self._files() if (match := _AFTER.fullmatch(name)) and match[1] > last]
        if len(self._history) < 2 or after or last in self._saved or last not in self._completed():
            raise NotNow("something is built on the last write")
        of_metadata = [file.name for file in (self._path / ".hoodie/metadata/.hoodie").rglob("*commit")]
        compacted = max((name for name in of_metadata if name.endswith(".commit")), default="")
        if compacted > last or sum(name > compacted for name in of_metadata) >= _BEFORE_A_COMPACTION:
            raise NotNow("the metadata table is compacted, or will be by the rollback itself")
        with self._client() as client:
            try:
                assert client.rollback(last)
            except Exception as error:
                if "Could not rollback a savepointed commit" in str(error):  # by a savepoint of ours
                    raise NotNow("it is saved") from error
                raise
        self._history.pop()
        self._now = self._history[-1][1]

    def _savepoint(self) -> None:
        last = self._history[-1][0]
        if last in self._saved or last not in self._completed():
            raise NotNow("it is saved already")
        with self._client() as client:
            try:
                client.savepoint(last, "writer", "before a change")
            except Exception as error:
                if "beyond the lookup window" in str(error):
                    raise NotNow("the last clean retains from a later instant on") from error
                raise
        self._saved.append(last)

    def _restore(self) -> None:
        if not self._saved:
            raise NotNow("there is no savepoint")
        with self._client() as client:
            client.restoreToSavepoint(self._saved[-1])
        self._history = [(time, state) for time, state in self._history if time <= self._saved[-1]]
        self._now = self._history[-1][1]

    def _plan(self, service: str) -> None:
        """Leave a plan of a writer's own."""
        jvm = self._spark.sparkContext._jvm  # noqa: SLF001
        more = {
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.clustering.inline.max.commits": "1",
            "hoodie.log.compaction.blocks.threshold": "2",
            "hoodie.clean.trigger.max.commits": "1",
            _KEEP: "1",
        }
        with self._client(**more) as client:
            client.scheduleTableService(
                jvm.org.apache.hudi.common.util.Option.empty(),
                getattr(jvm.org.apache.hudi.common.model.TableServiceType, service),
            )

    # -- the timeline

    def _files(self) -> list[str]:
        folder = self._path / ".hoodie" / ("timeline" if self._kind["version"] >= 8 else "")
        return [file.name for file in folder.glob("2*")] if folder.exists() else []

    def _completed(self) -> set[str]:
        return {match[1] for name in self._files() if (match := _DONE.fullmatch(name))}

    def _options(self) -> dict[str, str]:
        kind, version = self._kind, self._kind["version"]
        generator = "Nonpartitioned" if not kind["partitions"] else "Complex" if kind["complex_key"] else "Simple"
        found = {
            "hoodie.table.name": "t",
            "hoodie.datasource.write.table.type": kind["type"],
            "hoodie.datasource.write.recordkey.field": "k",
            "hoodie.datasource.write.partitionpath.field": "p" if kind["partitions"] else "",
            "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}KeyGenerator",
            "hoodie.write.complex.keygen.validation.enable": "false",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.hive_style_partitioning": json.dumps(kind["hive_style"]),
            "hoodie.index.type": kind["index"],
            "hoodie.metadata.enable": json.dumps(kind["metadata"]),
            "hoodie.metadata.index.column.stats.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
            "hoodie.cleaner.policy.failed.writes": "LAZY",
            "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
            "hoodie.write.lock.filesystem.expire": "10",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            "hoodie.upsert.shuffle.parallelism": "1",
            "hoodie.insert.shuffle.parallelism": "1",
            "hoodie.delete.shuffle.parallelism": "1",
            "hoodie.bulkinsert.shuffle.parallelism": "1",
        }
        if version != 9:
            found |= {"hoodie.write.table.version": str(version), "hoodie.write.auto.upgrade": "false"}
        if version >= 8:
            found["hoodie.write.record.merge.mode"] = kind["merge"]
        if kind["index"] == "RECORD_INDEX":
            found |= {
                "hoodie.metadata.record.index.enable": "true",
                "hoodie.metadata.record.index.min.filegroup.count": "1",
                "hoodie.metadata.record.index.max.filegroup.count": "1",
            }
        if kind["index"] == "BUCKET":
            found |= {"hoodie.bucket.index.num.buckets": "2", "hoodie.bucket.index.hash.field": "k"}
        if kind["small_files"]:
            found["hoodie.parquet.small.file.limit"] = "0"
        if kind.get("changes"):
            found["hoodie.table.cdc.enabled"] = "true"
        if kind["evolves"]:
            found["hoodie.schema.on.read.enable"] = "true"
            found["hoodie.write.concurrency.schema.conflict.resolution.enable"] = "false"  # it knows no ALTER TABLE
            found["hoodie.datasource.write.schema.allow.auto.evolution.column.drop"] = "true"
        return found
