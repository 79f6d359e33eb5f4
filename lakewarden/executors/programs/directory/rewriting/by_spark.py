"""Parquet and ORC files are read and written by Spark. Rows, columns and all values are compared on both sides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere

from lakewarden.executors.programs.directory.client.errors import translated
from lakewarden.executors.programs.directory.rewriting.columnar import Footer, rows_of, same_footers
from lakewarden.executors.programs.directory.rewriting.fine_times import refuse_fine_times
from lakewarden.executors.programs.directory.rewriting.orc_columns import columns_of_orc
from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.formats.directory.options.compaction_options import FileFormat
from lakewarden.planners.model.step import Step

_SESSION = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.orc.mergeSchema": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "4",
    "spark.sql.legacy.allowHashOnMapType": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.files.maxRecordsPerFile": "0",
    # New files say that Spark 3 wrote them. So their old dates must count by the calendar of today.
    "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
    "spark.sql.parquet.int96RebaseModeInRead": "EXCEPTION",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
_INSTANTS = (
    (re.compile(r"INT96"), "INT96"),
    (re.compile(r"isAdjustedToUTC=true, timeUnit=milliseconds"), "TIMESTAMP_MILLIS"),
    (re.compile(r"isAdjustedToUTC=true, timeUnit=microseconds"), "TIMESTAMP_MICROS"),
)
_LEGACY_DECIMAL = re.compile(r"FIXED_LEN_BYTE_ARRAY\(\d+\) Decimal\(precision=(\d+),")
_LONG_DECIMAL = 18
_CODECS = {"uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zlib": "zlib", "zstd": "zstd", "lz4": "lz4"}
_CODECS_OF_PARQUET = {**_CODECS, "lz4": "lz4_raw", "unknown": "lz4"}
"""Arrow calls LZ4_RAW so, and has no name for the LZ4 of Hadoop."""


def rewritten(spark: Any, files: Sequence[Path], kind: FileFormat, target: Path, *, count: int) -> list[Path]:
    """Write the rows of files into `count` new ones at most, below `target`, and return these, in order.

    Raises RefusedError if the files cannot be rewritten without a loss, a TemporaryError if the work was stopped.
    """
    of_orc = partial(columns_of_orc, spark)
    chosen, footer = same_footers(files, kind, of_orc)
    if len(chosen) < len(files):
        raise NotRewrittenError(f"{len(files) - len(chosen)} of its {len(files)} small files have other columns")
    refuse_fine_times(files, kind)
    with translated(Step.EXECUTE):
        for key, value in {**_SESSION, **_written_as(footer)}.items():
            spark.conf.set(key, value)
        rows = _read(spark, kind, files)
        writer = rows.coalesce(count).write.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        codecs = _CODECS_OF_PARQUET if kind is FileFormat.PARQUET else _CODECS
        writer.option("compression", codecs.get(footer.codec, "snappy")).format(kind.value).save(str(target))
        made = sorted(file for file in target.iterdir() if file.name.startswith("part-"))
        before, after = _sums(rows), _sums(_read(spark, kind, made))
    if rows_of(made, kind, of_orc, footer) != footer.rows:
        raise NotRewrittenError("the new files do not have as many rows as the old ones")
    if before != after or before[0] != footer.rows:
        raise NotRewrittenError("the new files do not hold the values of the old ones")
    return made


def _read(spark: Any, kind: FileFormat, files: Sequence[Path]) -> DataFrame:
    """Return the rows of exactly these files: no name in them stands for others."""
    folder = {str(file.parent) for file in files}
    reader = spark.read.option("__globPaths__", "false").format(kind.value)
    frame: DataFrame = reader.load(folder.pop())
    return frame


def _sums(rows: DataFrame) -> tuple[Any, ...]:
    """Return the number of rows, and two sums over all values of all columns. They do not depend on the order of the
    rows, and a value that is missing counts in its own place.
    """
    columns = [F.col(f"`{name.replace('`', '``')}`") for name in rows.columns]
    values = [part for column in columns for part in (column, column.isNull())]
    told = rows.agg(
        F.count(F.lit(1)),
        F.sum(F.xxhash64(*values).cast("decimal(38,0)")),
        F.sum(F.hash(*values).cast("decimal(38,0)")),
    ).collect()
    return tuple(told[0])


def _written_as(footer: Footer) -> dict[str, str]:
    """Return how Spark writes the types that a file has, as far as it can choose."""
    types = {name for pattern, name in _INSTANTS if pattern.search(footer.columns)}
    legacy = any(int(found[1]) <= _LONG_DECIMAL for found in _LEGACY_DECIMAL.finditer(footer.columns))
    return {
        "spark.sql.parquet.outputTimestampType": types.pop() if len(types) == 1 else "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true" if legacy else "false",
    }
