"""The kinds of Iceberg's tables, and the acts on them, as they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from fuzz.rows.program import Act, Mood

KEYS = 12
_SPECS = ("", "", "p", "p", "bucket", "truncate", "day", "p bucket")
_WRITES = {"append": 9, "append one by one": 6, "merge": 4, "update": 4, "delete": 4, "delete partition": 1}
_OVERWRITES = {"overwrite": 1, "overwrite dynamic": 1}
_FLINK = {"upsert": 9, "equality delete": 4}
_EVOLVES = {"add column": 1, "rename column": 1, "drop column": 1, "widen column": 1, "change spec": 1}
_REFS = {"roll back": 2, "set current": 1, "tag": 1, "branch": 2, "write to branch": 2, "publish": 1, "drop ref": 1}
_AUDITS = {"set aside": 2, "cherry-pick": 1}
_OPERATORS = {"append by pyiceberg": 2, "expire": 1, "rewrite": 1, "stray": 1, "upgrade": 1}
OURS = {"compaction": 9, "clustering": 4, "clean": 5, "orphans": 2, "archive": 3, "table_stats": 2}
_SMALL = {"min_input_files": 2}
_OPTIONS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "compaction": (
        _SMALL,
        _SMALL,
        {**_SMALL, "remove_dangling_deletes": True},
        {**_SMALL, "partial_progress": True, "max_commits": 2},
        {**_SMALL, "target_file_size": "2KiB", "min_file_size": "1KiB", "max_file_size": "4KiB"},
        {**_SMALL, "max_files": 3},
        {"min_input_files": 1, "delete_file_threshold": 1},
        {"min_input_files": 1, "remove_dangling_deletes": True},
        {},
    ),
    "clustering": (
        {**_SMALL, "untouched_for": "0s", "sort_order": "k"},
        {**_SMALL, "untouched_for": "0s", "zorder": ["k", "p"]},
        {**_SMALL, "untouched_for": "0s", "sort_order": "b"},
        {"min_input_files": 1, "untouched_for": "0s", "sort_order": "p DESC NULLS LAST, k"},
        {**_SMALL, "untouched_for": "0s"},
    ),
    "clean": (
        {"max_snapshot_age": "0s", "min_snapshots_to_keep": 1},
        {"max_snapshot_age": "0s", "min_snapshots_to_keep": 2},
        {"max_snapshot_age": "0s", "min_snapshots_to_keep": 1, "max_snapshots": 1},
    ),
    "orphans": ({"older_than": "1d", "unknown_for": "0s"},),
    "archive": ({"small_manifests": 2},),
    "table_stats": ({}, {"columns": ["k"]}, {"partition_stats": False}),
}


def kind_of_a_table(chance: Random) -> Mapping[str, Any]:
    """Return the kind of a table."""
    version = chance.choice((1, 2, 2, 2, 3, 3))
    modes = ("copy-on-write", "merge-on-read", "merge-on-read")
    return {
        "version": version,
        "delete": chance.choice(modes) if version > 1 else "copy-on-write",
        "update": chance.choice(modes) if version > 1 else "copy-on-write",
        "spec": chance.choice(_SPECS),
        "files": chance.choice(("parquet", "parquet", "parquet", "avro", "orc")),
        "granularity": chance.choice(("file", "partition")),
        "gzip": chance.random() < 0.3,
        "object_store": chance.random() < 0.2,
        "sorted": chance.random() < 0.3,
        "refs": chance.random() < 0.5,
        "keeps_sink": chance.random() < 0.2,
    }


class Draws:
    """Draws acts for a table of a kind."""

    def __init__(self, kind: Mapping[str, Any], chance: Random) -> None:
        self._kind, self._chance = kind, chance
        flink = _FLINK if kind["version"] > 1 else {}
        self._writes = Mood.drawn(chance, {**_WRITES, **flink}).weights
        ours = {f"our {name}": weight for name, weight in OURS.items()}
        refs = {**_REFS, **_AUDITS} if kind["refs"] else {}
        others = {**_OVERWRITES, **_EVOLVES, **_OPERATORS, **refs, **ours}
        self._mood = {**self._writes, **Mood.drawn(chance, others).weights}

    def acts(self, number: int) -> Iterator[Act]:
        """Yield so many acts after the first write, some of them in groups."""
        names = Mood(weights={**self._mood, "append": 5, "our compaction": 6}).draws(self._chance)
        yield Act("append", {"keys": list(range(KEYS))})
        for _ in range(number):
            yield from self._drawn(next(names))

    def _drawn(self, name: str) -> Iterator[Act]:
        chance = self._chance
        if name.startswith("our "):
            yield from self._service(name.removeprefix("our "))
        elif name == "append one by one":
            for _ in range(chance.randrange(2, 6)):
                yield Act("append", {"keys": self._keys()})
        elif name == "stray":  # the first run remembers it, the second one deletes it
            yield Act(name)
            yield from [Act("run", {"service": "orphans", "options": _OPTIONS["orphans"][0]})] * 2
        elif name in ("delete partition", "overwrite"):
            yield Act(name, {"p": chance.randrange(2), "keys": self._keys()})
        elif name == "change spec":
            yield Act(name, {"spec": chance.choice(_SPECS)})
        elif name in _EVOLVES or name in (*_REFS, "cherry-pick", "expire", "rewrite", "upgrade"):
            yield Act(name, {"keys": self._keys()} if name == "write to branch" else {})
        else:
            yield Act(name, {"keys": self._keys()})

    def _service(self, service: str) -> Iterator[Act]:
        chance = self._chance
        given: dict[str, Any] = {"service": service, "options": dict(chance.choice(_OPTIONS[service]))}
        manner = chance.random()
        if manner < 0.55:
            yield Act("run", given)
        elif manner < 0.63:
            yield Act("run", {**given, "until": chance.choice(("execute", "commit"))})
        elif manner < 0.74:
            yield Act("killed", {**given, "at": chance.randrange(1, 12)})
        elif manner < 0.85:
            names = Mood(weights={**self._writes, "append": 4}).draws(chance)
            acts = [act for _ in range(chance.randrange(1, 3)) for act in self._drawn(next(names))]
            writes = [[act.name, act.given] for act in acts]
            yield Act("beside", {**given, "at": chance.randrange(1, 16), "writes": writes})
        else:
            yield Act("begin", given)
            others = {"expire": 1, "change spec": 1}
            others |= {"roll back": 1, "branch": 1, "write to branch": 1} if self._kind["refs"] else {}
            names = Mood(weights={**self._writes, "append": 4, **others}).draws(chance)
            if self._kind["version"] > 1 and chance.random() < 0.3:  # a commit of deletes alone
                yield Act("equality delete", {"keys": self._keys()})
            else:
                for _ in range(chance.randrange(1, 4)):
                    yield from self._drawn(next(names))
                    yield Act("go on")
            yield Act("end")

    def _keys(self) -> list[int]:
        return sorted(self._chance.sample(range(KEYS), self._chance.randrange(1, 5)))
