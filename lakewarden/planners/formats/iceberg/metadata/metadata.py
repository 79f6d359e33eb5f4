"""A table's metadata file: what it says, in the terms of Iceberg's table spec (format versions 1 to 3)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.inflating import CutOffError, gunzipped
from lakewarden.planners.decoding.json_stream import Content, JsonObject, OtherContentError
from lakewarden.planners.decoding.numbers import count, counted, long, moment
from lakewarden.planners.model.errors import PermanentError

MAIN = "main"
_NO_SNAPSHOT = -1
"""What Java's writers put where there is no current snapshot."""


class CorruptMetadataError(PermanentError):
    """The metadata file is none, or not whole."""


class BrokenOffError(CorruptMetadataError):
    """The metadata file ends before its text does: it is of a writer that was killed, and no table's version."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """One snapshot. `operation` is `append`, `replace`, `overwrite` or `delete`. Of its `summary` is kept what somebody
    asks for: our own marks, Flink's, and counts of files, which are texts as Iceberg writes them. `manifest_list` is
    None for the oldest tables of version 1, which name their manifests here.
    """

    id: int
    parent: int | None
    sequence: int
    at: datetime
    operation: str
    summary: Mapping[str, str]
    manifest_list: str | None

    def count(self, key: str) -> int:
        """Return a count of the summary; 0 where it does not say."""
        return counted(self.summary.get(key, "0")) or 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Ref:
    """A branch or a tag, and what of its history it wants to be kept."""

    name: str
    is_branch: bool
    snapshot: int
    min_snapshots_to_keep: int | None = None
    max_snapshot_age: timedelta | None = None
    max_ref_age: timedelta | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PartitionField:
    """One field of a partition spec; `field_id` is its key in manifests of every engine."""

    field_id: int
    name: str
    transform: str


class Told(NamedTuple):
    """What was read of a metadata file that the next version will most likely say again: its snapshots, by what stood
    there, and the log of them.
    """

    content: Content | None
    log: Content | None
    snapshots: tuple[Snapshot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMetadata:
    """One version of a table.

    `file` is where it was read from, `location` the table's folder as its writers spell it. `snapshots` are in the
    order of the file, `sequence` is the last sequence number (0 in version 1). `metadata_log` are the earlier metadata
    files that this one names, `statistics_of` the Puffin and partition statistics files of each snapshot that has some.
    `types` are those of the current schema's columns and of what they are made of, without parameters:
    `{"long", "decimal", "list"}`.
    """

    file: str
    format_version: int
    uuid: str
    location: str
    updated_at: datetime
    properties: Mapping[str, str]
    snapshots: tuple[Snapshot, ...]
    current: int | None
    refs: tuple[Ref, ...]
    specs: Mapping[int, tuple[PartitionField, ...]]
    default_spec: int
    sort_order: int
    sequence: int = 0
    metadata_log: tuple[str, ...] = ()
    statistics_of: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    types: frozenset[str] = frozenset()
    by_id: Mapping[int, Snapshot] = field(default_factory=dict, repr=False, compare=False)
    told: Told | None = field(default=None, repr=False, compare=False)
    _main: list[tuple[Snapshot, ...]] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def current_snapshot(self) -> Snapshot | None:
        """Return the snapshot that readers see; None for a table without one."""
        return None if self.current is None else self.by_id.get(self.current)

    def ancestors(self, snapshot: int | None) -> tuple[Snapshot, ...]:
        """Return a snapshot and what it was made from, the newest first, as far as they are not expired."""
        if snapshot != self.current:
            return tuple(self._lineage(snapshot))
        if not self._main:  # it is asked for again and again
            self._main.append(tuple(self._lineage(snapshot)))
        return self._main[0]

    def _lineage(self, snapshot: int | None) -> Iterator[Snapshot]:
        seen = set()
        while snapshot is not None and snapshot not in seen and (found := self.by_id.get(snapshot)) is not None:
            seen.add(snapshot)
            yield found
            snapshot = found.parent


def parse_metadata(content: bytes, *, file: str) -> TableMetadata:
    """Return what a metadata file says, as `metadata_of` does."""
    return metadata_of(lambda: iter((content,)), file=file)


def metadata_of(parts: Callable[[], Iterable[bytes]], *, file: str, told: Told | None = None) -> TableMetadata:
    """Return what a metadata file says; it may be compressed by gzip. `parts` give its content from the begin, as often
    as they are asked for. Of the snapshots that an earlier version has `told` none is decoded again.

    Raises CorruptMetadataError, BrokenOffError among them, and what `parts` raise.
    """
    if told is not None and told.content is not None:
        try:
            return _read(parts(), file, told)
        except OtherContentError:
            pass
    return _read(parts(), file, Told(None, None, ()))


def _read(parts: Iterable[bytes], file: str, told: Told) -> TableMetadata:
    content = _Parts(parts)
    try:
        return _metadata(JsonObject(content.plain()), file, told)
    except DamagedError as wrong:
        broken_off = isinstance(wrong, CutOffError) or content.break_off()
        kind = BrokenOffError if broken_off else CorruptMetadataError
        raise kind(f"{file} is no metadata file of an Iceberg table, {wrong}: restore it from a backup") from wrong
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
        raise CorruptMetadataError(
            f"{file} is no metadata file of an Iceberg table ({_short(wrong)}): restore it from a backup"
        ) from wrong


class _Parts:
    """The parts of a file, of which the end is remembered."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._end = b""
        self._is_gzipped = False

    def plain(self) -> Iterator[bytes]:
        """Yield them, inflated if they are compressed."""
        parts = self._remembered()
        first = next(parts, b"")
        self._is_gzipped = first[:2] == b"\x1f\x8b"
        parts = chain((first,), parts)
        return gunzipped(parts, most=_LARGEST) if self._is_gzipped else parts

    def break_off(self) -> bool:
        """Whether their text ends before it should: all of them are read. Compressed ones say so themselves."""
        for _ in self._remembered():
            pass
        return not self._is_gzipped and not self._end.endswith((b"}", b"]"))

    def _remembered(self) -> Iterator[bytes]:
        for part in self._parts:
            self._end = part[-1024:].rstrip() or self._end
            yield part


_LARGEST = 64 * 2**30
"""So much one may grow when it is inflated, in bytes: it is held in parts."""


def _short(wrong: Exception) -> str:
    """Return an error in which a text of the file may stand."""
    return repr(wrong)[:200]


def span(milliseconds: int) -> timedelta:
    """Return a duration. Those beyond all calendars, as the largest long that stands for "never", are the longest."""
    return timedelta(milliseconds=milliseconds) if milliseconds < _LONGEST_MILLISECONDS else timedelta.max


_LONGEST_MILLISECONDS = timedelta.max // timedelta(milliseconds=1)


def _metadata(text: JsonObject, file: str, known: Told) -> TableMetadata:
    raw, told = dict[str, Any](), Told(None, None, ())
    for key in text.members():
        if key == "snapshots":
            new = tuple(map(_snapshot, text.items(known=known.content)))
            told = told._replace(content=text.content, snapshots=known.snapshots + new)
        elif key == "snapshot-log":
            for _ in text.items(known=known.log):
                pass
            told = told._replace(log=text.content)
        else:
            raw[key] = text.value()
    if known.content is not None and told.content is None:
        raise OtherContentError
    snapshots = told.snapshots
    current = raw.get("current-snapshot-id")
    current = None if current in (None, _NO_SNAPSHOT) else long(current, "current-snapshot-id")
    refs = tuple(_refs(raw.get("refs"), current))
    by_id = {one.id: one for one in snapshots}
    for ref in refs:
        if ref.snapshot not in by_id:  # to take it for a table without files would be the end of them
            raise ValueError(f"{ref.name} is snapshot {ref.snapshot}, which is not there")
    return TableMetadata(
        file=file,
        format_version=count(raw["format-version"], "format-version"),
        uuid=str(raw.get("table-uuid", "")),
        location=str(raw["location"]).rstrip("/"),
        updated_at=moment(raw["last-updated-ms"], "last-updated-ms"),
        properties={str(key): str(value) for key, value in (raw.get("properties") or {}).items()},
        snapshots=snapshots,
        current=current,
        refs=refs,
        specs=_specs(raw),
        default_spec=long(raw.get("default-spec-id", 0), "default-spec-id"),
        sort_order=long(raw.get("default-sort-order-id", 0), "default-sort-order-id"),
        sequence=count(raw.get("last-sequence-number", 0), "last-sequence-number"),
        metadata_log=tuple(str(entry["metadata-file"]) for entry in raw.get("metadata-log") or ()),
        statistics_of=_statistics(raw),
        types=frozenset(_types(_schema(raw))),
        by_id=by_id,
        told=told,
    )


_KEPT = frozenset(
    {
        *(f"{done}-{kind}-files" for done in ("added", "deleted", "total") for kind in ("data", "delete")),
        *(f"added-{kind}-delete-files" for kind in ("position", "equality")),
        "removed-delete-files",
        "removed-files-size",
    }
)
_MARKS = ("lakewarden.", "flink.")
_FEW = 8
"""Texts of so many characters recur."""


def _snapshot(raw: Mapping[str, Any]) -> Snapshot:
    summary = raw.get("summary") or {}
    parent, manifest_list = raw.get("parent-snapshot-id"), raw.get("manifest-list")
    return Snapshot(
        id=long(raw["snapshot-id"], "snapshot-id"),
        parent=None if parent is None else long(parent, "parent-snapshot-id"),
        sequence=count(raw.get("sequence-number", 0), "sequence-number"),
        at=moment(raw["timestamp-ms"], "timestamp-ms"),
        operation=sys.intern(str(summary.get("operation", "append"))),
        summary={
            sys.intern(key): sys.intern(text) if len(text := str(value)) <= _FEW else text
            for key, value in summary.items()
            if key in _KEPT or key.startswith(_MARKS)
        },
        manifest_list=None if manifest_list is None else str(manifest_list),
    )


def _refs(raw: Mapping[str, Any] | None, current: int | None) -> Iterator[Ref]:
    """Yield the refs. `main` is the current snapshot, whether it is written down or not."""
    named = dict(raw or {})
    if current is not None:
        named.setdefault(MAIN, {"snapshot-id": current, "type": "branch"})
    for name, ref in sorted(named.items()):
        yield Ref(
            name=name,
            is_branch=ref["type"] == "branch",
            snapshot=long(ref["snapshot-id"], "snapshot-id"),
            min_snapshots_to_keep=_maybe(ref.get("min-snapshots-to-keep")),
            max_snapshot_age=_span(ref.get("max-snapshot-age-ms")),
            max_ref_age=_span(ref.get("max-ref-age-ms")),
        )


def _schema(raw: Mapping[str, Any]) -> Any:
    """Return the current schema; version 1 may have no other."""
    schemas = {one.get("schema-id"): one for one in raw.get("schemas") or ()}
    return schemas.get(raw.get("current-schema-id"), raw.get("schema") or {})


def _types(of: Any) -> Iterator[str]:
    """Yield the names of a type and of those that it is made of."""
    if isinstance(of, str):
        yield of.partition("(")[0].partition("[")[0].strip()
        return
    yield of.get("type", "struct")
    nested = (field["type"] for field in of.get("fields") or ())
    for inner in (*nested, *(of[part] for part in ("element", "key", "value") if part in of)):
        yield from _types(inner)


def _specs(raw: Mapping[str, Any]) -> Mapping[int, tuple[PartitionField, ...]]:
    if "partition-specs" in raw:
        return {long(spec["spec-id"]): _fields(spec["fields"]) for spec in raw["partition-specs"]}
    return {0: _fields(raw.get("partition-spec") or ())}


def _fields(raw: Sequence[Mapping[str, Any]]) -> tuple[PartitionField, ...]:
    return tuple(
        PartitionField(
            field_id=long(one.get("field-id", 1000 + at)), name=str(one["name"]), transform=str(one["transform"])
        )
        for at, one in enumerate(raw)
    )


def _statistics(raw: Mapping[str, Any]) -> Mapping[int, tuple[str, ...]]:
    found: dict[int, list[str]] = {}
    for entry in (*(raw.get("statistics") or ()), *(raw.get("partition-statistics") or ())):
        snapshot = long(entry["snapshot-id"], "snapshot-id")
        found.setdefault(snapshot, []).append(str(entry["statistics-path"]))
    return {snapshot: tuple(paths) for snapshot, paths in found.items()}


def _maybe(number: Any) -> int | None:
    return None if number is None else count(number)


def _span(milliseconds: Any) -> timedelta | None:
    return None if milliseconds is None else span(count(milliseconds))
