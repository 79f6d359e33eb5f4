"""What `hoodie.properties` says of a table, as far as observing needs it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.hudi.metadata.names import Layout
from lakewarden.planners.formats.hudi.metadata.properties import parse_properties
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage.locations import canonical_location

HOME = ".hoodie"
FILE = "hoodie.properties"
TIMELINE = "timeline"
METADATA = "metadata"
CLAIM = ".lakewarden/claim.json"
"""The claim of the table, below HOME. It has a folder of its own, so that its renewal changes no other stamp."""

INDEX_DEFINITIONS = ".hoodie/.index_defs/index.json"

_BACKUP = "hoodie.properties.backup"
_LARGEST = 2**20
"""The largest thing in it is the table's schema: some sixty bytes for each column."""

_FIRST_VERSION_OF_LAYOUT_2 = 8
_PATH = "hoodie.timeline.path"
_HISTORY = "hoodie.timeline.history.path"
_LONGEST_VERSION = 20
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@~-]{1,255}")
_MOST_SEGMENTS = 8
MERGE_ON_READ = "MERGE_ON_READ"
_KINDS = frozenset({MERGE_ON_READ, "COPY_ON_WRITE"})
_MERGE_MODE = "hoodie.record.merge.mode"
"""Hudi writes it for each table from version 8 on. Without it a compaction ends with a NullPointerException (run)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableProperties:
    """A table's name, type (`MERGE_ON_READ`), version, and how and where it keeps its timeline.

    `zone` is `hoodie.table.timeline.timezone`: UTC or LOCAL. Not every client obeys it. `has_metadata_table`: Hudi
    keeps a metadata table for it (`hoodie.table.metadata.partitions`), with the partitions that are complete and those
    that are being built. `index_definitions` is the path of the definitions of its indexes, below the table.
    `base_file_format` is PARQUET, ORC, HFILE or LANCE. `history` is the folder of the archive, below that of the
    timeline (layout 2). It is empty if the name is no plain folder. `lacks` are the keys that the file must have and
    has not. `has_backup`: a backup of the file has them.
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
    lacks: tuple[str, ...] = ()
    has_backup: bool = False

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
    `HoodieTableConfig.modify`). The checksum in the file covers two names and nothing else. So a file that broke off is
    known by what it lacks. Raises PermanentError if there is neither, if the file is too large, or if the timeline is
    not a folder inside the table. Raises TemporaryError if there is no whole copy.
    """
    home = f"{location}/{HOME}"
    found = [content for name in (FILE, _BACKUP) if (content := _content(f"{home}/{name}", storage)) is not None]
    whole = [values for content in found if _is_whole(values := parse_properties(content))]
    if whole:
        return _table_properties(whole[0], location, backup=whole[1] if len(whole) > 1 else {})
    if not found:
        raise PermanentError(f"{location} holds no Hudi table: {HOME} has no {FILE}")
    raise TemporaryError(f"{FILE} of {location} is half-written or damaged: it names no table and its type")


def _is_whole(values: Mapping[str, str]) -> bool:
    return "hoodie.table.name" in values and values.get("hoodie.table.type") in _KINDS


def _content(path: str, storage: Storage) -> bytes | None:
    try:
        return storage.read(path, limit=_LARGEST)
    except FileNotFoundError:
        return None


def _table_properties(values: Mapping[str, str], location: str, *, backup: Mapping[str, str]) -> TableProperties:
    version = values.get("hoodie.table.version", "0")[:_LONGEST_VERSION]
    by_version = Layout.V2 if (counted(version) or 0) >= _FIRST_VERSION_OF_LAYOUT_2 else Layout.V1
    layout = {"1": Layout.V1, "2": Layout.V2}.get(values.get("hoodie.timeline.layout.version", ""), by_version)
    return TableProperties(
        name=values["hoodie.table.name"],
        kind=values["hoodie.table.type"],
        version=version,
        layout=layout,
        timeline_folder=_timeline_folder(location, None if layout is Layout.V1 else values.get(_PATH) or TIMELINE),
        zone=values.get("hoodie.table.timeline.timezone"),
        partitioned=bool(values.get("hoodie.table.partition.fields")),
        metadata_partitions=_names(values, "hoodie.table.metadata.partitions"),
        metadata_building=_names(values, "hoodie.table.metadata.partitions.inflight"),
        index_definitions=values.get("hoodie.table.index.defs.path") or INDEX_DEFINITIONS,
        base_file_format=(values.get("hoodie.table.base.file.format") or "PARQUET").upper()[:20],
        history=_history(values),
        lacks=tuple(sorted({*_due(values, by_version), *backup} - values.keys())),
        has_backup=bool(backup),
    )


def _due(values: Mapping[str, str], by_version: Layout) -> Iterator[str]:
    if by_version is Layout.V2 and values["hoodie.table.type"] == MERGE_ON_READ:
        yield _MERGE_MODE


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
