"""Times that Spark would change: it counts microseconds, and INT96 and ORC have nanoseconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyarrow import parquet as pq

from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.formats.directory.options.compaction_options import FileFormat
from lakewarden.planners.settings import shown

_BY_JAVA = "parquet-mr"
"""Source: Spark 3.5, `ParquetFileFormat`. With `int96TimestampConversion` readers move the times of other writers."""


def refuse_fine_times(files: Sequence[Path], kind: FileFormat) -> None:
    """Raise NotRewrittenError if Spark would cut a time, or if readers would take the new file's times for others.

    Raises what Arrow raises for a damaged file.
    """
    for file in files:
        if kind is FileFormat.ORC:
            _refuse_in_orc(file)
        else:
            _refuse_in_parquet(file)


def _refuse_in_parquet(file: Path) -> None:
    footer = pq.read_metadata(str(file))
    columns = (footer.schema.column(number) for number in range(len(footer.schema)))
    paths = [column.path for column in columns if column.physical_type == "INT96"]
    if not paths:
        return
    if not (footer.created_by or "").startswith(_BY_JAVA):
        raise NotRewrittenError(
            f"{shown(paths[0])} is INT96 of {shown(footer.created_by or 'an unknown writer')}: some readers move its "
            "times by their zone, and would not move those of Spark"
        )
    whole = pq.ParquetFile(str(file)).read(columns=paths)
    cut = pq.ParquetFile(str(file), coerce_int96_timestamp_unit="us").read(columns=paths)
    for name in whole.column_names:
        for exact, rounded in zip(_times(whole[name]), _times(cut[name]), strict=True):
            # beyond the years 1677 to 2262 both sides lose the same high bits
            if pc.any(pc.not_equal(exact, pc.multiply(rounded, 1000))).as_py():
                raise _too_fine(name)


def _refuse_in_orc(file: Path) -> None:
    opened = orc.ORCFile(str(file))
    names = [field.name for field in opened.schema if "timestamp" in str(field.type)]
    if not names:
        return
    found = opened.read(columns=names)
    for name in names:
        for times in _times(found[name]):
            if pc.any(pc.not_equal(pc.multiply(pc.divide(times, 1000), 1000), times)).as_py():
                raise _too_fine(name)


def _too_fine(name: str) -> NotRewrittenError:
    return NotRewrittenError(
        f"{shown(name)} has times that are finer than microseconds, which Spark would cut. In an ORC file times beyond "
        "the years 1678 to 2261 are not told from them"
    )


def _times(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yield the times in a column, at any depth, as numbers."""
    for chunk in column.chunks:
        yield from _times_in(chunk)


def _times_in(array: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_timestamp(array.type):
        yield array.view(pa.int64())
    elif pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from _times_in(array.field(number))
    elif pa.types.is_map(array.type):
        yield from _times_in(array.keys)
        yield from _times_in(array.items)
    elif pa.types.is_list(array.type):
        yield from _times_in(array.values)
