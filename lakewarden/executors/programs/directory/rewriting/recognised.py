"""What a file is, by its first and last bytes: files of Flink have no extension."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from lakewarden.executors.programs.directory.rewriting.by_blocks import MAGIC
from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.formats.directory.options.compaction_options import FileFormat

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
    """Return the format that all files have. Raises RefusedError if they differ, or are not as `wanted`."""
    found = {_format_of(file, wanted) for file in files}
    if len(found) != 1:
        raise NotRewrittenError(f"its files are of several formats: {', '.join(sorted(found))}")
    [one] = found
    if wanted not in (FileFormat.AUTO, one):
        raise NotRewrittenError(f"its files are {one}, and options.files says {wanted}")
    return one


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
