"""Java's `.properties` format, as far as `java.util.Properties.load` defines it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.hudi.damage import (
    BASE_FILE_FORMAT,
    FIRST_VERSION_OF_LAYOUT_2,
    LAYOUT,
    MERGE_ON_READ,
    PARTITION_FIELDS,
    TABLE_TYPE,
    VERSION,
    Damage,
    damage,
    may_miss_partition_fields,
)
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.locations import canonical_location

_NATURAL_LINE = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(content: bytes) -> dict[str, str]:
    """Return the keys and values of a properties file; the last of equal keys counts. It takes time by its length."""
    properties: dict[str, str] = {}
    for line in _logical_lines(content.decode("latin-1")):
        match = _KEY.match(line)
        if match is not None:
            properties[_unescaped(match[1])] = _unescaped(match[2])
    return properties


def _logical_lines(text: str) -> list[str]:
    """Return the lines without comments and blanks, with those that end in an odd number of backslashes joined."""
    lines: list[str] = []
    carried: list[str] = []
    for natural in _NATURAL_LINE.split(text):
        line = natural.lstrip(" \t\f")
        if not carried and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            carried.append(line[:-1])
        else:
            lines.append("".join((*carried, line)))
            carried.clear()
    return lines if not carried else [*lines, "".join(carried)]


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else _CONTROLS.get(m[1], m[1]), text)
    return _paired(plain) if _SURROGATE.search(plain) else plain


def _paired(text: str) -> str:
    """Return a text with its surrogate pairs as characters, and with a mark for a single surrogate, which could be
    written nowhere.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


# What `hoodie.properties` says of a table, as far as observing needs it.

HOME = ".hoodie"
FILE = "hoodie.properties"
TIMELINE = "timeline"
METADATA = "metadata"

INDEX_DEFINITIONS = ".hoodie/.index_defs/index.json"

_BACKUP = "hoodie.properties.backup"
_LARGEST = 2**20
"""The largest thing in it is the table's schema: some sixty bytes for each column."""

_PATH = "hoodie.timeline.path"
_HISTORY = "hoodie.timeline.history.path"
_LONGEST_VERSION = 20
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@~-]{1,255}")
_MOST_SEGMENTS = 8
_KINDS = frozenset({MERGE_ON_READ, "COPY_ON_WRITE"})
_OF_A_TABLE = f"{HOME}/{FILE}"
_OF_A_PARTITION = tuple(f".hoodie_partition_metadata{ending}" for ending in ("", ".parquet", ".orc"))
_DEEPEST_LOOK, _WIDEST_LOOK, _LONGEST_LOOK = 4, 20, 10_000
"""How deep folders are looked into for one of a partition, how many of a folder, and how many entries of it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableProperties:
    """A table's name, type (`MERGE_ON_READ`), version, and how and where it keeps its timeline.

    `zone` is `hoodie.table.timeline.timezone`: UTC or LOCAL. Not every client obeys it. `has_metadata_table`: Hudi
    keeps a metadata table for it (`hoodie.table.metadata.partitions`), with the partitions that are complete and those
    that are being built. `index_definitions` is the path of the definitions of its indexes, below the table.
    `base_file_format` is PARQUET, ORC, HFILE or LANCE. `history` is the folder of the archive, below that of the
    timeline (layout 2). It is empty if the name is no plain folder. `damage` is what is wrong with the file itself,
    although it, or its backup, could be read.
    """

    name: str
    kind: str
    version: str
    layout: Layout
    timeline_folder: str
    zone: str | None
    partitioned: bool
    metadata_partitions: frozenset[str] = frozenset()
    metadata_building: frozenset[str] = frozenset()
    index_definitions: str = INDEX_DEFINITIONS
    base_file_format: str = "PARQUET"
    history: str = "history"
    damage: Damage = field(default_factory=Damage)

    @property
    def has_metadata_table(self) -> bool:
        """Whether Hudi keeps a metadata table for it."""
        return bool(self.metadata_partitions)

    @property
    def merge_on_read(self) -> bool:
        """Whether the table has log files."""
        return self.kind == MERGE_ON_READ


def read_table_properties(location: str, storage: Storage) -> TableProperties:
    """Return the properties of the table at `location`.

    Hudi replaces the file by way of a backup, which for a moment is the only whole copy (1.2.0,
    `HoodieTableConfig.modify`). It is read if the file itself names no table. Raises PermanentError if there is
    neither, if the file is too large, or if the timeline is not a folder inside the table. Raises TemporaryError if
    there is no whole copy.
    """
    home = f"{location}/{HOME}"
    contents = [_content(f"{home}/{name}", storage) for name in (FILE, _BACKUP)]
    if contents == [None, None]:
        raise PermanentError(f"{location} holds no Hudi table: {HOME} has no {FILE}")
    values, backup = (parse_properties(content or b"") for content in contents)
    if not _is_whole(backup):
        backup = {}
    whole = values if _is_whole(values) else backup
    if not whole:
        raise TemporaryError(f"{FILE} of {location} is half-written or damaged: it names no table and its type")
    partitions = may_miss_partition_fields(values) and _has_partitions(location, storage)
    return _table_properties(whole, location, damage=damage(values, backup, has_partitions=partitions))


def _is_whole(values: Mapping[str, str]) -> bool:
    return "hoodie.table.name" in values and values.get(TABLE_TYPE) in _KINDS


def _content(path: str, storage: Storage) -> bytes | None:
    try:
        return storage.read(path, limit=_LARGEST)
    except FileNotFoundError:
        return None


def _has_partitions(location: str, storage: Storage) -> bool:
    """Whether a folder of the table is a partition's. Another table below it is none of its folders."""

    def is_there(folder: str, depth: int) -> bool:
        entries = islice(storage.entries(folder), _LONGEST_LOOK)
        folders = (entry.name for entry in entries if entry.is_folder and entry.name[0] not in "._")
        for below in (f"{folder}/{name}" for name in islice(folders, _WIDEST_LOOK)):
            names = storage.present(below, (_OF_A_TABLE, *_OF_A_PARTITION))
            if _OF_A_TABLE not in names and (names or (depth > 1 and is_there(below, depth - 1))):
                return True
        return False

    try:
        return is_there(location, _DEEPEST_LOOK)
    except FileNotFoundError:
        return False


def _table_properties(values: Mapping[str, str], location: str, *, damage: Damage) -> TableProperties:
    version = values.get(VERSION, "0")[:_LONGEST_VERSION]
    by_version = Layout.V2 if (counted(version) or 0) >= FIRST_VERSION_OF_LAYOUT_2 else Layout.V1
    layout = {"1": Layout.V1, "2": Layout.V2}.get(values.get(LAYOUT, ""), by_version)
    return TableProperties(
        name=values["hoodie.table.name"],
        kind=values[TABLE_TYPE],
        version=version,
        layout=layout,
        timeline_folder=_timeline_folder(location, None if layout is Layout.V1 else values.get(_PATH) or TIMELINE),
        zone=values.get("hoodie.table.timeline.timezone"),
        partitioned=bool(values.get(PARTITION_FIELDS)),
        metadata_partitions=_names(values, "hoodie.table.metadata.partitions"),
        metadata_building=_names(values, "hoodie.table.metadata.partitions.inflight"),
        index_definitions=values.get("hoodie.table.index.defs.path") or INDEX_DEFINITIONS,
        base_file_format=(values.get(BASE_FILE_FORMAT) or "PARQUET").upper()[:20],
        history=_history(values),
        damage=damage,
    )


def _history(values: Mapping[str, str]) -> str:
    """Return the folder of the archive. It is empty if the name is no plain folder: only the archive needs it."""
    name = values.get(_HISTORY) or "history"
    return name if _is_plain(name) else ""


def _names(values: Mapping[str, str], key: str) -> frozenset[str]:
    return frozenset(filter(None, (name.strip() for name in values.get(key, "").split(","))))


def _timeline_folder(location: str, path: str | None) -> str:
    """Return the folder of the timeline: `.hoodie` itself, or a `path` below it.

    Raises PermanentError if it, or the metadata table's folder, leads out of the table, by its name or by a link.
    Another table may own that place.
    """
    home = f"{location}/{HOME}"
    if path is not None:
        segments = path.split("/")
        if len(segments) > _MOST_SEGMENTS or not all(map(_is_plain, segments)):
            raise PermanentError(
                f"{_PATH} of {location} is {path[:80]!r}, which names no folder inside {HOME}: set it to the one that "
                f"holds the table's instants, as in {_PATH}={TIMELINE}"
            )
        home = f"{home}/{path}"
    for folder in (home, f"{location}/{HOME}/{METADATA}"):
        led_to = canonical_location(folder)
        # The location may be spelled as Hadoop does: a worker's are, s3a:// for s3://.
        if led_to != folder and not led_to.startswith(f"{canonical_location(location)}/"):
            raise PermanentError(f"{folder} is a link to {led_to}, which lies outside the table: make it a folder")
    return home


def _is_plain(segment: str) -> bool:
    return _SEGMENT.fullmatch(segment) is not None and segment not in {".", ".."}
