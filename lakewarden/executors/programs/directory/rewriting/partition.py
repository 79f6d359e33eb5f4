"""One partition, from its small files to a folder that can take its place."""

from __future__ import annotations

import os
import re
import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakewarden.executors.programs.directory.exchanging.building import Exchange, build, link
from lakewarden.executors.programs.directory.exchanging.renames import Entry
from lakewarden.executors.programs.directory.rewriting.by_blocks import MAGIC, joined_blocks
from lakewarden.executors.programs.directory.rewriting.by_lines import NotRewrittenError, joined
from lakewarden.executors.programs.directory.rewriting.by_spark import rewritten
from lakewarden.planners.formats.directory.listing.folders import REWRITTEN, EntryKind
from lakewarden.planners.formats.directory.listing.walk import above
from lakewarden.planners.formats.directory.options import CompactionOptions, FileFormat
from lakewarden.planners.formats.directory.partitions import shown_path
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.settings import shown

# What a file is, by its first and last bytes: files of Flink have no extension.

_PARQUET = b"PAR1"
_ORC = b"ORC"
_REFUSED: Mapping[bytes, str] = {
    b"PARE": "Parquet with an encrypted footer",
    b"\x1f\x8b": "compressed by gzip",
    b"BZh": "compressed by bzip2",
    b"\x28\xb5\x2f\xfd": "compressed by zstd",
    b"SEQ": "a Hadoop SequenceFile",
}
_SAMPLE = 16
_LONG_SAMPLE = 4096


def recognised(files: Sequence[Path], wanted: FileFormat) -> FileFormat:
    """Return the format that all files have. Raises NotRewrittenError if they differ, or are not as `wanted`."""
    formats = {_format_of(file, wanted) for file in files}
    if len(formats) != 1:
        raise NotRewrittenError(f"its files are of several formats: {', '.join(sorted(formats))}")
    [kind] = formats
    if wanted not in (FileFormat.AUTO, kind):
        raise NotRewrittenError(f"its files are {kind}, and options.files says {wanted}")
    return kind


def _format_of(file: Path, wanted: FileFormat) -> FileFormat:
    with file.open("rb") as opened:
        head = opened.read(_SAMPLE)
        opened.seek(max(0, file.stat().st_size - _SAMPLE), os.SEEK_SET)
        tail = opened.read()
    for sign, what in _REFUSED.items():
        if head.startswith(sign):
            raise NotRewrittenError(f"it holds a file that is {what}")
    if head.startswith(_PARQUET) and tail.endswith(_PARQUET):
        return FileFormat.PARQUET
    if head.startswith(_ORC) and tail.rstrip(b"\0")[:-1].endswith(_ORC):
        return FileFormat.ORC
    if head.startswith(MAGIC):
        return FileFormat.AVRO
    if head.startswith((_PARQUET, _ORC)):
        raise NotRewrittenError("it holds a file that is Parquet or ORC, and has no end")
    if wanted in (FileFormat.CSV, FileFormat.JSON):
        if _is_deflated(file):
            raise NotRewrittenError("it holds a file that is compressed by zlib")
        return wanted
    raise NotRewrittenError(
        "it holds a file that is neither Parquet nor ORC nor Avro: for text set options.files to csv or json"
    )


def _is_deflated(file: Path) -> bool:
    """Whether a file begins as a stream of zlib, which Hadoop's DefaultCodec writes. Such a stream has no magic number
    of its own.
    """
    with file.open("rb") as opened:
        head = opened.read(_LONG_SAMPLE)
    try:
        return head.startswith(b"x") and bool(zlib.decompressobj().decompress(head, 1))
    except zlib.error:
        return False


_SUMMARY = "_metadata"
_SUMMARIES = (_SUMMARY, "_common_metadata")
"""They list the files of a folder, and of those below it, by their names."""

_COMPRESSED = frozenset(
    {".deflate", ".gz", ".gzip", ".bz2", ".zst", ".lz4", ".snappy", ".br", ".lzo", ".xz", ".zip", ".z"}
)
"""Such a text file is read as a compressed one. Source: Hadoop's `CompressionCodecFactory`, DuckDB."""

_BUCKET = re.compile(r".+_\d{5}\.c\d{3,}(\..+)?")
"""Source: Spark 3.5, `BucketingUtils.bucketIdToString` and `FileFormatDataWriter`."""

_OF_THE_MARKER_NS = 100_000_000
"""So far apart are the times of a marker and of the folder that it appeared in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A partition with a new folder that is complete: how many files and bytes it replaces, and by how many."""

    exchange: Exchange
    files: int
    bytes: int
    new_files: int


def prepared(
    session: Any, exchange: Exchange, kinds: Callable[[str], EntryKind], options: CompactionOptions, marker: str
) -> Prepared:
    """Rewrite the small files of a partition, and build its new folder. Raises NotRewrittenError where it stays as it
    is: then nothing is left beside it.
    """
    small = chosen(exchange.old, kinds, options)
    Path(exchange.home).mkdir()
    try:
        made = _made(session, exchange, small, options)
        gone = {*small, *(f".{name}.crc" for name in small)}
        vouches = marker if _is_committed(exchange, kinds, marker) else None
        build(exchange, made, replaced=gone & exchange.old.keys(), marker=vouches)
        for folder in ("in", "out"):
            shutil.rmtree(f"{exchange.home}/{folder}")
    except BaseException:
        shutil.rmtree(exchange.home)
        raise
    size = sum(exchange.old[name].size for name in small)
    return Prepared(exchange=exchange, files=len(small), bytes=size, new_files=len(made))


def chosen(
    files: Mapping[str, Entry | FileEntry], kinds: Callable[[str], EntryKind], options: CompactionOptions
) -> list[str]:
    """Return the small data files of a partition, in the order of their names. Pure. Raises NotRewrittenError if
    something in it tells that it must stay as it is.
    """
    for name in files:
        if kinds(name) is EntryKind.STAGED:
            raise NotRewrittenError(f"{shown(name)} is in progress")
        if _BUCKET.fullmatch(name):
            raise NotRewrittenError(
                f"{shown(name)} is of a bucketed table of Spark, which knows its buckets by the names"
            )
        if name in _SUMMARIES:
            raise NotRewrittenError(f"{name} lists its files by their names")
    data = sorted(name for name in files if kinds(name) is EntryKind.DATA)
    for name in data:
        if Path(name).suffix.lower() in _COMPRESSED:
            raise NotRewrittenError(f"{shown(name)} has the extension of a compressed file")
    small = [name for name in data if 0 < files[name].size < options.small_below]
    if len(small) < options.min_input_files:
        raise NotRewrittenError(f"it has {len(small)} small files by now")
    return small


def _made(session: Any, exchange: Exchange, small: list[str], options: CompactionOptions) -> list[Path]:
    end = common_end(small)
    files = link(exchange, small, f"{exchange.home}/in", end=end)
    return rewritten_as(session, files, Path(exchange.home, "out"), options, sign=Path(exchange.home).name, end=end)


def rewritten_as(
    session: Any, files: list[Path], out: Path, options: CompactionOptions, *, sign: str, end: str
) -> list[Path]:
    """Write the rows of files into new ones below `out`, and return these, under names that no other file has. Both
    sides are compared. Raises NotRewrittenError.
    """
    kind = recognised(files, options.files)
    if kind in (FileFormat.CSV, FileFormat.JSON):
        made = joined(files, kind, out, target_size=options.target_file_size)
    elif kind is FileFormat.AVRO:
        made = joined_blocks(files, out, target_size=options.target_file_size)
    else:
        size = sum(file.stat().st_size for file in files)
        made = rewritten(session, files, kind, out, count=-(-size // options.target_file_size))
    return [file.rename(file.with_name(f"{REWRITTEN}{sign}-{number:05d}{end}")) for number, file in enumerate(made)]


def refuse_listed_above(table: str, partition: str, storage: Storage) -> None:
    """Raise NotRewrittenError if a folder above a partition has a list of its files by their names."""
    for folder in above(partition):
        place = f"{table}/{folder}" if folder else table
        if storage.present(place, [_SUMMARY]):
            raise NotRewrittenError(f"{_SUMMARY} in {shown_path(folder)} lists its files by their names")


def common_end(names: list[str]) -> str:
    """Return the extension that all names have, as `.parquet`; none if they differ, as those of Flink."""
    ends = {Path(name).suffix for name in names}
    end = ends.pop() if len(ends) == 1 else ""
    return end if end[1:].isalpha() else ""


def _is_committed(exchange: Exchange, kinds: Callable[[str], EntryKind], marker: str) -> bool:
    """Whether the partition has a marker, and nothing has changed since: as `Folder.is_committed` has it."""
    if marker not in exchange.old:
        return False
    at = exchange.old[marker].mtime_ns
    newest = max(entry.mtime_ns for name, entry in exchange.old.items() if kinds(name) is EntryKind.DATA)
    return newest < at and Path(exchange.place).stat().st_mtime_ns <= at + _OF_THE_MARKER_NS
