"""The decoding of a metadata file: bytes become a `TableMetadata`, within bounds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import Any

from lakewarden.planners.decoding.damage import DamagedError
from lakewarden.planners.decoding.inflating import CutOffError, gunzipped, unpacked
from lakewarden.planners.decoding.json_stream import JsonObject, OtherContentError, count, long, moment
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    MAIN,
    BrokenOffError,
    CorruptMetadataError,
    MainLine,
    PartitionField,
    Ref,
    Snapshot,
    TableMetadata,
    Told,
)
from lakewarden.planners.formats.iceberg.metadata.schemas import columns_in, dropped_in, has_identifier, types_in
from lakewarden.planners.formats.iceberg.metadata.timeline import QUERY, is_of_a_sink
from lakewarden.planners.storage.locations import by_key, canonical_scheme

_NO_SNAPSHOT = -1
"""The value that Java's writers write if there is no current snapshot."""

_LARGEST = 64 * 2**30
"""The most bytes of an inflated file. It is held in parts."""

_COMPRESSED = {b"\x1f\x8b": gunzipped, b"\x28\xb5\x2f\xfd": unpacked}
"""How content is inflated that begins with these bytes. The names of files do not always tell."""

_LONGEST_MILLISECONDS = timedelta.max // timedelta(milliseconds=1)

_KEPT = frozenset(
    {
        *(f"{done}-{kind}-files" for done in ("added", "deleted", "total") for kind in ("data", "delete")),
        *(f"added-{kind}-delete-files" for kind in ("position", "equality")),
        "removed-delete-files",
        "removed-files-size",
        "engine-name",
    }
)

_MARKS = ("lakewarden.", "flink.", QUERY)

_FEW = 8
"""Texts of up to so many characters are kept once, because they occur often."""


def parse_metadata(content: bytes, *, file: str) -> TableMetadata:
    """Return what a metadata file says, as `metadata_of` does."""
    return metadata_of(lambda: iter((content,)), file=file)


def metadata_of(parts: Callable[[], Iterable[bytes]], *, file: str, told: Told | None = None) -> TableMetadata:
    """Return what a metadata file says. It may be compressed by gzip or zstd. `parts` returns its content from the
    beginning, and may be called several times. Snapshots that an earlier version has `told` are not decoded again.

    Raises CorruptMetadataError, its subclass BrokenOffError, and what `parts` raises.
    """
    if told is not None and told.content is not None:
        try:
            return _read(parts(), file, told)
        except OtherContentError:
            pass
    return _read(parts(), file, Told(None, None, ()))


def _read(parts: Iterable[bytes], file: str, memory: Told) -> TableMetadata:
    content = _Parts(parts)
    try:
        return replace(_metadata(JsonObject(content.plain()), file, memory), size=content.size)
    except DamagedError as wrong:
        broken_off = isinstance(wrong, CutOffError) or content.break_off()
        kind = BrokenOffError if broken_off else CorruptMetadataError
        raise kind(f"{file} is not a metadata file of an Iceberg table, {wrong}: restore it from a backup") from wrong
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
        raise CorruptMetadataError(
            f"{file} is not a metadata file of an Iceberg table ({_short(wrong)}): restore it from a backup"
        ) from wrong


class _Parts:
    """The parts of a file. The last one is remembered, and the `size` of what was inflated."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts = iter(parts)
        self._end = b""
        self._is_compressed = False
        self.size = 0

    def plain(self) -> Iterator[bytes]:
        """Yield the parts, inflated if they are compressed."""
        parts = self._remembered()
        first = next(parts, b"")
        inflate = next((inflater for magic, inflater in _COMPRESSED.items() if first.startswith(magic)), None)
        self._is_compressed = inflate is not None
        parts = chain((first,), parts)
        for part in parts if inflate is None else inflate(parts, most=_LARGEST):
            self.size += len(part)
            yield part

    def break_off(self) -> bool:
        """Whether the text ends too early. It reads all parts. Compressed parts raise an error by themselves."""
        for _ in self._remembered():
            pass
        return not self._is_compressed and not self._end.endswith((b"}", b"]"))

    def _remembered(self) -> Iterator[bytes]:
        for part in self._parts:
            self._end = part[-1024:].rstrip() or self._end
            yield part


def _short(wrong: Exception) -> str:
    """Return the text of an error, cut short. It may contain text of the file."""
    return repr(wrong)[:200]


def span(milliseconds: int) -> timedelta:
    """Return a duration. A number that is too large for a `timedelta` is the longest one. The largest long stands for
    "never".
    """
    return timedelta(milliseconds=milliseconds) if milliseconds < _LONGEST_MILLISECONDS else timedelta.max


def _metadata(text: JsonObject, file: str, memory: Told) -> TableMetadata:
    raw, new_memory = dict[str, Any](), Told(None, None, ())
    for key in text.members():
        if key == "snapshots":
            new = tuple(map(_snapshot, text.items(known=memory.content)))
            new_memory = new_memory._replace(content=text.content, snapshots=memory.snapshots + new)
        elif key == "snapshot-log":
            for _ in text.items(known=memory.log):
                pass
            new_memory = new_memory._replace(log=text.content)
        else:
            raw[key] = text.value()
    if memory.content is not None and new_memory.content is None:
        raise OtherContentError
    snapshots = new_memory.snapshots
    current = raw.get("current-snapshot-id")
    current = None if current in (None, _NO_SNAPSHOT) else long(current, "current-snapshot-id")
    refs = tuple(_refs(raw.get("refs"), current))
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    main = list[MainLine]()
    for ref in refs:
        if ref.snapshot not in by_id:  # if this counted as a table without files, its files would be deleted
            raise _without_its_snapshot(ref, file)
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
        schemas=frozenset(long(schema["schema-id"], "schema-id") for schema in raw.get("schemas") or ()),
        types=types_in(raw),
        has_keys=bool(raw.get("encryption-keys")),
        has_identifier=has_identifier(raw),
        dropped=dropped_in(raw),
        by_id=by_id,
        told=new_memory._replace(main=main),
        known_main=memory.main[0] if memory.main and len(by_id) == len(snapshots) else None,
        main=main,
    )


def _without_its_snapshot(ref: Ref, file: str) -> Exception:
    """Return the error for a ref to a snapshot that is not there. Without a tag or a branch a table loses nothing."""
    missing = f"{ref.name} is snapshot {ref.snapshot}, which is not there"
    if ref.name == MAIN:
        return ValueError(missing)
    kind = "branch" if ref.is_branch else "tag"
    move, remove = f"create_{kind}(table.metadata.current_snapshot_id, {ref.name!r})", f"remove_{kind}({ref.name!r})"
    return CorruptMetadataError(
        f"{file}: the {kind} {missing}, so Iceberg's client for Java cannot open the table. No file is lost, and a "
        f"backup would lose commits: with pyiceberg, move the {kind} to the current snapshot "
        f"(table.manage_snapshots().{move}.commit()), load the table again, and remove the {kind} ({remove}.commit())"
    )


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
        }
        | {sys.intern(key): "" for key in summary if is_of_a_sink(key)},
        manifest_list=None if manifest_list is None else str(manifest_list),
        schema=_maybe_long(raw.get("schema-id"), "schema-id"),
    )


def _refs(raw: Mapping[str, Any] | None, current: int | None) -> Iterator[Ref]:
    """Yield the refs. `main` is the current snapshot, even if the file does not list it."""
    named = dict(raw or {})
    if current is not None:
        named.setdefault(MAIN, {"snapshot-id": current, "type": "branch"})
    for name, ref in sorted(named.items()):
        yield Ref(
            name=name,
            is_branch=_is_branch(str(ref["type"])),
            snapshot=long(ref["snapshot-id"], "snapshot-id"),
            min_snapshots_to_keep=_maybe(ref.get("min-snapshots-to-keep")),
            max_snapshot_age=_span(ref.get("max-snapshot-age-ms")),
            max_ref_age=_span(ref.get("max-ref-age-ms")),
        )


def _is_branch(kind: str) -> bool:
    """Whether a ref is a branch. Iceberg reads its type in any case (`SnapshotRefType.fromString`)."""
    if kind.lower() not in {"branch", "tag"}:
        raise ValueError(f"a ref is of the type {kind[:40]!r}, and neither a branch nor a tag")
    return kind.lower() == "branch"


def _specs(raw: Mapping[str, Any]) -> Mapping[int, tuple[PartitionField, ...]]:
    columns = columns_in(raw)
    if "partition-specs" in raw:
        return {long(spec["spec-id"]): _fields(spec["fields"], columns) for spec in raw["partition-specs"]}
    return {0: _fields(raw.get("partition-spec") or (), columns)}


def _fields(raw: Sequence[Mapping[str, Any]], columns: Mapping[Any, str]) -> tuple[PartitionField, ...]:
    return tuple(
        PartitionField(
            field_id=long(field.get("field-id", 1000 + at)),
            name=str(field["name"]),
            transform=str(field["transform"]),
            source=columns.get(field.get("source-id"), ""),
        )
        for at, field in enumerate(raw)
    )


def _statistics(raw: Mapping[str, Any]) -> Mapping[int, tuple[str, ...]]:
    by_snapshot: dict[int, list[str]] = {}
    for entry in (*(raw.get("statistics") or ()), *(raw.get("partition-statistics") or ())):
        snapshot = long(entry["snapshot-id"], "snapshot-id")
        by_snapshot.setdefault(snapshot, []).append(str(entry["statistics-path"]))
    return {snapshot: tuple(paths) for snapshot, paths in by_snapshot.items()}


def _maybe_long(number: Any, name: str) -> int | None:
    return None if number is None else long(number, name)


def _maybe(number: Any) -> int | None:
    return None if number is None else count(number)


def _span(milliseconds: Any) -> timedelta | None:
    return None if milliseconds is None else span(count(milliseconds))


# One spelling for every path in metadata and listings, so that they can be compared.

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL = ("file", "local")
_FOLDERS = 100_000
"""How many folders are remembered. A table may have a folder for each of millions of partitions."""


class Spelling:
    """Spells paths: `file:/x/f` and `/x/f` are one, `s3a://` is `s3://`, and links to folders are resolved.

    The path of a file is taken literally, unlike the address of a table. Iceberg does not encode it in any scheme, so
    `%2F` in the folder of a partition stays `%2F`. Not for several threads.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def __call__(self, path: str) -> str:
        """Return the spelling of a path."""
        match = _SCHEME.fullmatch(path)
        if match is None:
            return self._local(path)
        scheme, rest = canonical_scheme(match[1]), match[2]
        if scheme in _LOCAL:
            return self._local(rest.removeprefix("//localhost") if rest.startswith("//localhost/") else rest)
        return f"{scheme}://{re.sub(r'/{2,}', '/', rest.lstrip('/'))}"

    def folder(self, path: str) -> str:
        """Return the spelling of a folder. The spelling of a path below the folder begins with it."""
        return self(f"{path.rstrip('/')}/").rstrip("/")

    def _local(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        if folder not in self._folders:
            if len(self._folders) >= _FOLDERS:
                self._folders.clear()
            self._folders[folder] = _real(folder)
        return f"{self._folders[folder]}/{name}"


def address_of(folder: str) -> str:
    """Return the address at which a folder is listed and its files are read. It is the spelling of the folder, except
    in object stores. There `a//b` and `a/b` are two folders, so the path stays as it is.
    """
    return by_key(folder) or Spelling().folder(folder)


def _real(folder: str) -> str:
    """Return a local folder with its links resolved. Its name may hold any characters."""
    return os.path.realpath(re.sub(r"/{2,}", "/", folder) or "/").rstrip("/")


def path_alone(spelled: str) -> str:
    """Return a spelled path without scheme and host."""
    scheme, separator, rest = spelled.partition("://")
    return f"/{rest.partition('/')[2]}" if separator else scheme
