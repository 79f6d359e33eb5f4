"""Where each format keeps its metadata in a table's folder, and what tools leave there that copy tables."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.inflating import gunzipped
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.content import StoreRefusedError

_MOST = 64 * 2**20
_VALUE = 10_000
_GZIP = b"\x1f\x8b"
_XTABLE = "XTABLE_METADATA"
_ONETABLE = "ONETABLE_LAST_INSTANT_SYNCED"
_UNIFORM = "delta-version"


class MadeFrom(NamedTuple):
    """The format of the table that a `tool` has made another table from. Empty if the tool does not say it."""

    format: str
    tool: str


def origin_of(properties: Mapping[str, str]) -> MadeFrom | None:
    """Return what a table was made from, according to its properties. None if they do not say that it was made by a
    tool.

    Source: Apache XTable, `TableSyncMetadata` (before 0.2, OneTable: `OneTableMetadata`); Delta 3.3, `IcebergConverter`
    and `HudiConverter` (`DELTA_VERSION_PROPERTY`).
    """
    if _XTABLE in properties or _ONETABLE in properties:
        match = re.search(r'"sourceTableFormat"\s*:\s*"(\w+)"', properties.get(_XTABLE, ""))
        return MadeFrom("" if match is None else match[1].lower(), "Apache XTable")
    return MadeFrom("delta", "UniForm") if _UNIFORM in properties else None


def _in_json(*path: str) -> Callable[[bytes], Mapping[str, Any]]:
    """Return a reader of what a file of JSON, or of lines of JSON, has at a path."""

    def read(text: bytes) -> Mapping[str, Any]:
        properties: Any = {}
        for line in [text] if path[0] != "metaData" else text.splitlines():
            inner = json.loads(line)
            for name in path:
                inner = inner.get(name) if isinstance(inner, dict) else None
            properties = inner or properties
        return properties if isinstance(properties, dict) else {}

    return read


def _in_commit(text: bytes) -> Mapping[str, str]:
    """Return those properties of a commit that `origin_of` knows. Old commits are JSON, and newer ones Avro without
    compression: both hold the texts as they are.
    """
    after = {name: text.partition(name.encode())[2] for name in (_XTABLE, _ONETABLE, _UNIFORM) if name.encode() in text}
    return {name: rest[:_VALUE].replace(b"\\", b"").decode(errors="replace") for name, rest in after.items()}


_COMMIT = r"\d{14,17}(_\d{14,17})?\.(commit|deltacommit|replacecommit)"
_VERSION, _SCHEMA = r".+\.metadata\.json(\.gz)?", r"schema-\d+"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a format's tables are known: by an entry of a `folder` of the table, with a name like `known_by`.

    The newest file that is `told` in one of the folders `below` this one says what the table was made from:
    `properties` reads it. `copies` are the properties by which a table asks its own writers to make a table of another
    format.
    """

    folder: str
    known_by: str
    told: str
    properties: Callable[[bytes], Mapping[str, Any]]
    below: Sequence[str] = ("",)
    copies: Mapping[str, str] = field(default_factory=dict)


_COPIES = {"metadata.iceberg.storage": "iceberg", "metadata.iceberg-compatible": "iceberg"}
"""Source: Paimon 1.0, `IcebergOptions.METADATA_ICEBERG_STORAGE`; 0.9, `CoreOptions.METADATA_ICEBERG_COMPATIBLE`."""

LAYOUTS: Mapping[str, TableLayout] = {
    "hudi": TableLayout(".hoodie", r".+", _COMMIT, _in_commit, ("/timeline", "")),
    "iceberg": TableLayout("metadata", _VERSION, _VERSION, _in_json("properties")),
    "paimon": TableLayout("schema", _SCHEMA, _SCHEMA, _in_json("options"), copies=_COPIES),
    "delta": TableLayout("_delta_log", r".+", r"\d{20}\.json", _in_json("metaData", "configuration")),
}


def in_words(name: str) -> str:
    """Return `a Hudi table` for the name of a format, and for the empty name a table of another format."""
    if not name:
        return "a table of another format"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name.capitalize()} table"


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundTable:
    """A table of some format in a folder, known by its `file`. `copies` are the formats that it makes copies in."""

    format: str
    file: str
    origin: MadeFrom | None = None
    copies: frozenset[str] = frozenset()

    @property
    def table(self) -> str:
        """Return what it is in words: `a Hudi table`."""
        return in_words(self.format)


def found_in(folder: str, storage: Storage, *, formats: Iterable[str] = LAYOUTS) -> tuple[FoundTable, ...]:
    """Return the tables of these formats in a folder. It takes one listing for each format that is not there.

    Raises TemporaryError if the folder cannot be listed.
    """
    return tuple(table for name in formats if (table := _table_in(name, folder, storage)) is not None)


def _table_in(name: str, folder: str, storage: Storage) -> FoundTable | None:
    layout = LAYOUTS[name]
    file = next(_named(f"{folder}/{layout.folder}", layout.known_by, storage), None)
    if file is None:
        return None
    properties: Mapping[str, Any] = {}
    for below in layout.below:
        newest = max(_named(f"{folder}/{layout.folder}{below}", layout.told, storage), default=None)
        if newest is not None:
            properties = _properties(newest[2], layout, storage)
            break
    copies = {to for key, to in layout.copies.items() if properties.get(key, "disabled") not in ("disabled", "false")}
    return FoundTable(format=name, file=file[2], origin=origin_of(properties), copies=frozenset(copies))


def _named(folder: str, pattern: str, storage: Storage) -> Iterator[tuple[datetime, int, str]]:
    """Yield the entries of a folder with such names: the last write, the length of the name, and the path."""
    try:
        for entry in storage.entries(folder):
            if re.fullmatch(pattern, entry.name):
                yield entry.modified, len(entry.name), f"{folder}/{entry.name}"
    except FileNotFoundError:
        return
    except StoreRefusedError:
        raise
    except PermanentError:  # a file has the name of that folder
        return


def _properties(file: str, layout: TableLayout, storage: Storage) -> Mapping[str, Any]:
    """Return the properties in a file. A file that is gone, or cannot be read, has none: then nothing is known."""
    try:
        text = storage.read(file, limit=_MOST)
        if text.startswith(_GZIP):
            text = b"".join(gunzipped([text], most=_MOST))
        return layout.properties(text)
    except (FileNotFoundError, PermanentError, DamagedError, ValueError, RecursionError):
        return {}
