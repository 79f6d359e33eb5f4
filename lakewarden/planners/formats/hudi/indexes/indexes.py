"""Which indexes a table's metadata table has, their layout, and the settings that Hudi's client needs for them.

A commit that does not keep up an index hides rows from its readers. An index that is kept up in another layout, or over
other columns, is wrong. `hoodie.properties` names the partitions of the metadata table.
`.hoodie/.index_defs/index.json` has the layout in which Hudi's clients from 1.0 on have made them
(`HoodieIndexMetadata`). Both may change at any time, so they are read at each step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakewarden.planners.formats.hudi.metadata.names import Action, Layout, collapse
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, UnreadableError, decode
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.formats.hudi.options.service_options import IndexingOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Service, State, Timeline
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.ports import Storage

COLUMNS = "hoodie.metadata.index.column.stats.column.list"
"""The columns of column stats, if the table does not name them: before table version 8."""

_FILES = "files"
_COLUMN_STATS = "column_stats"
_PARTITION_STATS = "partition_stats"
_RECORD_INDEX = "record_index"
_EXPRESSION = "expr_index_"
# Secondary indexes are not known. A compaction beside one that Hudi 1.0.2 had made failed at its commit, and left the
# metadata table unreadable for others (run).
_KNOWN = frozenset({_FILES, _COLUMN_STATS, _PARTITION_STATS, "bloom_filters", _RECORD_INDEX})
_ALWAYS_INDEXED = frozenset({"_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"})
"""Hudi adds them to the columns that are asked for (run)."""

_LARGEST = 2**20
_PLAIN = re.compile(r"(?!.*(?:^|/)\.\.?(?:/|$))[A-Za-z0-9._=+@~/-]{1,255}")
_COMMITTING = frozenset(Service) - {Service.METADATA_VALIDATION}


@dataclass(frozen=True, kw_only=True, slots=True)
class Definition:
    """One index of `index.json`: its columns, and whether each partition has a record index of its own."""

    columns: tuple[str, ...] = ()
    partitioned: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Indexes:
    """The partitions of the metadata table that are complete, those that are being built, and how they are laid out.

    `damage` says why definitions that are needed cannot be read.
    """

    complete: frozenset[str] = frozenset()
    building: frozenset[str] = frozenset()
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    damage: str | None = None


def read_indexes(location: str, properties: TableProperties, storage: Storage) -> Indexes:
    """Return the indexes of the table at `location`. Its properties were read a moment ago."""
    complete, building = properties.metadata_partitions, properties.metadata_building
    definitions: Mapping[str, Definition] = {}
    damage = None
    if not complete | building <= {_FILES, "bloom_filters"}:
        try:
            definitions = _definitions(location, properties.index_definitions, storage)
        except (UnreadableError, PermanentError, *MALFORMED) as error:
            damage = f"{properties.index_definitions[:100]} cannot be read: {error}"
    return Indexes(complete=complete, building=building, definitions=definitions, damage=damage)


def blockers(
    indexes: Indexes, properties: TableProperties, timeline: Timeline, *, conf: Mapping[str, str]
) -> Iterator[Blocker]:
    """Yield what blocks services because their commit would leave the table's indexes wrong."""
    wrong = index_blocker(indexes, properties, conf=conf)
    if wrong is not None:
        yield wrong
    for instant in timeline.instants:
        if instant.pending and instant.action == Action.INDEXING:
            yield _in_the_way(
                reason=f"an index is being built (indexing {instant.time}): it may lack a commit of that time",
                remedy="wait until the indexer has ended. A policy of indexing finishes a plan that was not begun. "
                "HoodieIndexer undoes the plan of a dead indexer",
                services=_COMMITTING - {Service.INDEXING},
            )


def index_blocker(indexes: Indexes, properties: TableProperties, *, conf: Mapping[str, str]) -> Blocker | None:
    """Return a blocker if Hudi's client cannot keep up the table's indexes. `conf` are the settings of the table's
    owner.
    """
    unknown = sorted((indexes.complete | indexes.building) - _KNOWN)
    if unknown:
        return _in_the_way(
            reason=f"the table has an index that Lakewarden cannot keep up, {', '.join(map(repr, unknown))[:200]}",
            remedy="drop it (DROP INDEX, in a session with the writers' lock options), or remove the table's policies",
        )
    if _FILES in indexes.building:
        return _in_the_way(
            reason="the table's metadata table is being made",
            remedy="wait for the writer that makes it; if it has died, the next commit of a writer rebuilds it",
        )
    if indexes.damage is not None:
        return _in_the_way(
            reason=f"the layout of the table's indexes is not known: {indexes.damage}",
            remedy="repair the file, or drop the indexes",
        )
    return _stats_blocker(indexes, properties, conf)


def switches(indexes: Indexes) -> Mapping[str, str]:
    """Return the settings with which Hudi's client keeps up exactly these indexes, and makes no other.

    Partition stats have no switch of their own. Hudi 1.2 uses that of column stats (`isPartitionStatsIndexEnabled`).
    `hoodie.metadata.index.async` keeps the client from building indexes that are missing, or being built
    (`HoodieBackedTableMetadataWriter.initializeIfNeeded`).
    """
    complete = indexes.complete
    by_partition = indexes.definitions.get(_RECORD_INDEX, Definition()).partitioned
    settings = {
        "hoodie.metadata.enable": bool(complete),
        "hoodie.metadata.index.async": True,
        "hoodie.metadata.index.column.stats.enable": _COLUMN_STATS in complete,
        "hoodie.metadata.index.partition.stats.enable": _PARTITION_STATS in complete,
        "hoodie.metadata.index.bloom.filter.enable": "bloom_filters" in complete,
        "hoodie.metadata.global.record.level.index.enable": _RECORD_INDEX in complete and not by_partition,
        "hoodie.metadata.record.level.index.enable": _RECORD_INDEX in complete and by_partition,
        "hoodie.metadata.index.expression.enable": any(name.startswith(_EXPRESSION) for name in complete),
    }
    columns = indexes.definitions.get(_COLUMN_STATS, Definition()).columns
    named = {COLUMNS: ",".join(columns)} if _COLUMN_STATS in complete and columns else {}
    return {key: str(on).lower() for key, on in settings.items()} | named


def to_build(options: IndexingOptions, properties: TableProperties) -> tuple[str, ...]:
    """Return the indexes that are wanted and missing, partition stats right after column stats: on a partitioned table
    Hudi 1.2 keeps up neither alone.
    """
    wanted = [str(name) for name in options.build]
    if _COLUMN_STATS in wanted and properties.partitioned and properties.layout is Layout.V2:
        wanted.insert(wanted.index(_COLUMN_STATS) + 1, _PARTITION_STATS)
    return tuple(name for name in wanted if name not in properties.metadata_partitions)


def at_once(wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the wanted indexes that are built together: the first, and partition stats with column stats."""
    together = 2 if tuple(wanted[:2]) == (_COLUMN_STATS, _PARTITION_STATS) else 1
    return tuple(wanted[:together])


def to_drop(options: IndexingOptions, complete: frozenset[str]) -> tuple[str, ...]:
    """Return the indexes that are there and not wanted."""
    return tuple(name for name in options.drop if name in complete)


def indexing_under_way(properties: TableProperties, storage: Storage) -> str | None:
    """Return the instant of an index that is being built, or is planned; None if there is none. Raises OSError."""
    instants = collapse(storage.listing(properties.timeline_folder), properties.layout)
    pending = (i for i in instants if i.action is Action.INDEXING and i.state is not State.COMPLETED)
    return next((instant.time for instant in pending), None)


def _in_the_way(*, reason: str, remedy: str, services: frozenset[Service] = _COMMITTING) -> Blocker:
    return Blocker(services=services, code="index_in_the_way", reason=reason, remedy=remedy)


def _stats_blocker(indexes: Indexes, properties: TableProperties, conf: Mapping[str, str]) -> Blocker | None:
    """Return a blocker if Hudi's client cannot keep the table's column stats or partition stats as they are."""
    if _COLUMN_STATS not in indexes.complete:
        if _PARTITION_STATS not in indexes.complete:
            return None
        return _in_the_way(
            reason="the table has partition stats without column stats, which Hudi 1.2 does not keep up",
            remedy="drop the index partition_stats, or build column_stats",
        )
    if not indexes.definitions.get(_COLUMN_STATS, Definition()).columns and not conf.get(COLUMNS):
        return _in_the_way(
            reason="the table has column stats, and does not name their columns",
            remedy=f"name the writers' columns under options.conf: {COLUMNS}",
        )
    alone = properties.partitioned and _PARTITION_STATS not in indexes.complete
    if alone and properties.layout is Layout.V2:  # before table version 8 Hudi has no partition stats
        return _in_the_way(
            reason="the table has column stats without partition stats, and Hudi 1.2 cannot keep up the one without "
            "building the other",
            remedy="drop column_stats, or let a policy of indexing, or a writer of Hudi 1.1 or newer, build both",
            services=_COMMITTING - {Service.INDEXING},
        )
    return None


def _definitions(location: str, path: str, storage: Storage) -> Mapping[str, Definition]:
    """Return what the file says; nothing if there is none, as before Hudi 1.0."""
    if _PLAIN.fullmatch(path) is None or path.startswith("/"):
        raise UnreadableError("it does not lie inside the table")
    try:
        record = decode(storage.read(f"{location}/{path}", limit=_LARGEST)) or {}
    except FileNotFoundError:
        return {}
    definitions = record.get("indexDefinitions") or {}
    return {str(name): _definition(definition) for name, definition in definitions.items()}


def _definition(definition: Mapping[str, Any]) -> Definition:
    columns = tuple(str(column) for column in definition.get("sourceFields") or () if column not in _ALWAYS_INDEXED)
    options = definition.get("indexOptions") or {}
    return Definition(columns=columns, partitioned=str(options.get("isPartitioned", "")).lower() == "true")
