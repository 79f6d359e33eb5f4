"""Parquet and ORC files are read and written by Spark. Rows, columns and all values are compared on both sides."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc
from pyarrow import parquet as pq
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere

from lakewarden.executors.programs import java_errors
from lakewarden.executors.programs.directory.rewriting.by_lines import NotRewrittenError
from lakewarden.planners.formats.directory.options import FileFormat
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.settings import shown

# What the footers of Parquet and ORC files say: which files can be rewritten as one, and whether the new ones say the
# same.

_KNOWN_METADATA = frozenset(
    {b"writer.model.name", b"org.apache.spark.version", b"org.apache.spark.sql.parquet.row.metadata"}
)
"""What a footer may carry besides its schema. Anything else would be lost, and readers may depend on it."""
_ARROW = b"ARROW:schema"
"""The schema in Arrow's types. Arrow's own writers put it into every footer."""
_PLAIN = {"Int(bitWidth=64, isSigned=true)": "INT64", "Int(bitWidth=32, isSigned=true)": "INT32"}
_FIELD_ID = re.compile(r"(?m)^\s*(?:required|optional|repeated) \S+ field_id=\d")
_OLDER_TERMS = re.compile(r", (?:is_from_converted_type|force_set_converted_type)=(?:true|false)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Footer:
    """The columns of a file with their physical and logical types, its codec, and its rows."""

    columns: str
    codec: str
    rows: int


Columns = Callable[[Path], str]
"""Returns the columns of an ORC file in words. Raises NotRewrittenError if its footer says what would be lost."""


def same_footers(files: Sequence[Path], kind: FileFormat, of_orc: Columns) -> tuple[list[Path], Footer]:
    """Return the files with the columns that most of them have, and the sum of their footers. Raises
    NotRewrittenError if none can be read, or one says what a rewrite would lose.
    """
    footers = {file: footer for file in files if (footer := _footer(file, kind, of_orc)) is not None}
    if not footers:
        raise NotRewrittenError("no footer of its files can be read")
    columns, _ = Counter(footer.columns for footer in footers.values()).most_common(1)[0]
    chosen = [file for file in files if file in footers and footers[file].columns == columns]
    codec, _ = Counter(footers[file].codec for file in chosen).most_common(1)[0]
    return chosen, Footer(columns=columns, codec=codec, rows=sum(footers[file].rows for file in chosen))


def rows_of(files: Sequence[Path], kind: FileFormat, of_orc: Columns, like: Footer) -> int:
    """Return how many rows the footers of new files say. Raises NotRewrittenError if their columns are not those of
    the old ones.
    """
    rows = 0
    for file in files:
        footer = _footer(file, kind, of_orc)
        if footer is None:
            raise NotRewrittenError("a new file cannot be read")
        if footer.columns != like.columns:
            raise NotRewrittenError(f"Spark writes other columns: {_first_difference(like.columns, footer.columns)}")
        rows += footer.rows
    return rows


def _footer(file: Path, kind: FileFormat, of_orc: Columns) -> Footer | None:
    try:
        return _of_orc(file, of_orc) if kind is FileFormat.ORC else _of_parquet(file)
    except (pa.ArrowException, OSError):
        return None


def _of_parquet(file: Path) -> Footer:
    metadata = pq.read_metadata(str(file))
    unknown = (metadata.metadata or {}).keys() - _KNOWN_METADATA - {_ARROW}
    if _ARROW in (metadata.metadata or {}):
        _refuse_types_of_arrow(metadata.schema.to_arrow_schema().remove_metadata())
    if unknown:
        raise NotRewrittenError(f"a footer carries {shown(min(unknown).decode(errors='replace'))}, which would be lost")
    schema = metadata.schema
    if _FIELD_ID.search(str(schema)):
        raise NotRewrittenError("its columns have field ids, which would be lost")
    columns = "\n".join(
        f"{column.path}: {column.physical_type}({column.length}) {_meaning(column)} {column.max_repetition_level}"
        for column in (schema.column(number) for number in range(len(schema)))
    )
    codec = (
        metadata.row_group(0).column(0).compression if metadata.num_row_groups and metadata.num_columns else "SNAPPY"
    )
    return Footer(columns=columns, codec=codec.lower(), rows=metadata.num_rows)


@lru_cache(maxsize=64)
def _refuse_types_of_arrow(schema: pa.Schema) -> None:
    """Raise NotRewrittenError if Arrow reads another schema from a file that does not carry it, as Spark's do not."""
    plain = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), plain, store_schema=False)
    for field, read in zip(schema, pq.read_schema(pa.BufferReader(plain.getvalue())), strict=True):
        if not field.equals(read, check_metadata=True):
            raise NotRewrittenError(
                f"a footer carries what Arrow alone knows of {shown(field.name)} ({field.type}), which would be lost"
            )


def _meaning(column: Any) -> str:
    """Return the logical type of a column. A plain number says the same with and without one, and it does not matter
    whether a footer says it in the older terms, too.
    """
    logical_type = str(column.logical_type)
    if _PLAIN.get(logical_type) == column.physical_type:
        return "None"
    return _OLDER_TERMS.sub("", logical_type)


def _of_orc(file: Path, columns: Columns) -> Footer:
    orc_file = orc.ORCFile(str(file))
    return Footer(columns=columns(file), codec=str(orc_file.compression).lower(), rows=orc_file.nrows)


def _first_difference(old: str, new: str) -> str:
    for line, other in zip(old.split("\n"), new.split("\n"), strict=False):
        if line != other:
            return f"{shown(line)} becomes {shown(other)}"
    return "some are missing"


# Times that Spark would change: it counts microseconds, and INT96 and ORC have nanoseconds.

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
    table = opened.read(columns=names)
    for name in names:
        for times in _times(table[name]):
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


# What an ORC file says of its columns, by the library that Spark reads and writes it with. Arrow knows less of it.

_OF_SPARK = "org.apache.spark.version"
_SPARKS_TYPE = "spark.sql.catalyst.type"
_NOT_OF_SPARK = frozenset({"uniontype", "timestamp with local time zone"})
"""Source: Spark 3.5, `OrcUtils.toCatalystSchema`, and ORC 1.9, `TypeDescription.Category`."""


def columns_of_orc(spark: Any, file: Path) -> str:
    """Return the columns of an ORC file with their types and attributes. Raises NotRewrittenError if the file has other
    metadata or a type that Spark does not read, and Py4JJavaError for a damaged one.

    Spark 3.5 adds an attribute to each time, `timestamp`: that one alone says nothing new.
    """
    jvm, hadoop = spark._jvm, spark._jsc.hadoopConfiguration()  # noqa: SLF001 - pyspark's own access to py4j
    files = jvm.org.apache.orc.OrcFile
    path = jvm.org.apache.hadoop.fs.Path(f"file://{file}")  # no escapes, whatever the name
    reader = files.createReader(path, files.readerOptions(hadoop))
    try:
        unknown = set(reader.getMetadataKeys()) - {_OF_SPARK}
        if unknown:
            raise NotRewrittenError(f"a footer carries {shown(min(unknown))}, which would be lost")
        schema = reader.getSchema()
        _refuse_unknown(schema, "the file")
        return "\n".join([*_columns(schema), *_attributes(schema)])
    finally:
        reader.close()


def _name_of(schema: Any) -> str:
    return str(schema.getCategory().getName())


def _refuse_unknown(schema: Any, column: str) -> None:
    """Raise NotRewrittenError if a type, or one in it, is none of Spark's."""
    if (name := _name_of(schema)) in _NOT_OF_SPARK:
        raise NotRewrittenError(f"{column} is or holds a {name}, a type of ORC that Spark does not read")
    fields = list(schema.getFieldNames()) if name == "struct" and schema.getId() == 0 else []
    for number, child in enumerate(schema.getChildren() or ()):
        _refuse_unknown(child, f"column {shown(fields[number])}" if fields else column)


def _columns(schema: Any) -> Iterator[str]:
    names = list(schema.getFieldNames()) if _name_of(schema) == "struct" else []
    if not names:
        yield str(schema.toString())
    for name, child in zip(names, schema.getChildren() or (), strict=False):
        yield f"{name}: {child.toString()}"


def _attributes(schema: Any) -> Iterator[str]:
    """Yield the attributes of a type and of those in it."""
    for name in sorted(schema.getAttributeNames()):
        value = schema.getAttributeValue(name)
        if (name, value) != (_SPARKS_TYPE, _name_of(schema)):
            yield f"attribute {name} of column {schema.getId()}: {value}"
    for child in schema.getChildren() or ():
        yield from _attributes(child)


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


# What Spark's exceptions mean for a directory. They are translated only here.

_NO_SPACE = "No space left on device"
_OLD_DATE = "READ_ANCIENT_DATETIME"


def _error_of(causes: Sequence[str], _step: Step) -> LakewardenError:
    """Return the error. Files that Spark cannot read or write need an operator. Nothing of theirs is committed."""
    message = java_errors.for_people(causes)
    if any("cancelled" in cause for cause in causes):
        return TemporaryError("the Spark jobs of the run were cancelled")
    if any(_OLD_DATE in cause for cause in causes):
        return PermanentError(
            "it has dates before 1582-10-15, or times before 1900, in files that Spark 3 did not write: the files do "
            "not say whether they count by the Julian calendar"
        )
    if any(_NO_SPACE in cause for cause in causes):
        return TemporaryError(message, delay=timedelta(minutes=5))
    return PermanentError(message)


def rewritten(spark: Any, files: Sequence[Path], kind: FileFormat, target: Path, *, count: int) -> list[Path]:
    """Write the rows of files into `count` new ones at most, below `target`, and return these, in order. The old rows
    are summed up on their way to the writer, the new ones are read again.

    Partitions may be rewritten side by side. Raises NotRewrittenError if the files cannot be rewritten without a loss,
    a TemporaryError if the work was stopped.
    """
    of_orc = partial(columns_of_orc, spark)
    chosen, footer = same_footers(files, kind, of_orc)
    if len(chosen) < len(files):
        raise NotRewrittenError(f"{len(files) - len(chosen)} of its {len(files)} small files have other columns")
    refuse_fine_times(files, kind)
    with java_errors.translated(Step.EXECUTE, _error_of):
        spark = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())  # noqa: SLF001 - settings of its own
        for key, value in {**_SESSION, **_written_as(footer)}.items():
            spark.conf.set(key, value)
        old, on_the_way = _read(spark, kind, files), Observation()
        writer = old.observe(on_the_way, *_sums(old)).coalesce(count).write
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        codecs = _CODECS_OF_PARQUET if kind is FileFormat.PARQUET else _CODECS
        writer.option("compression", codecs.get(footer.codec, "snappy")).format(kind.value).save(str(target))
        made = sorted(file for file in target.iterdir() if file.name.startswith("part-"))
        after = _summed(_read(spark, kind, made))
        before = on_the_way.get if _is_told(on_the_way) else _summed(old)
    if rows_of(made, kind, of_orc, footer) != footer.rows:
        raise NotRewrittenError("the new files do not have as many rows as the old ones")
    if before != after or after["rows"] != footer.rows:
        raise NotRewrittenError("the new files do not hold the values of the old ones")
    return made


def _read(spark: Any, kind: FileFormat, files: Sequence[Path]) -> DataFrame:
    """Return the rows of exactly these files: no name in them stands for others."""
    folder = {str(file.parent) for file in files}
    reader = spark.read.option("__globPaths__", "false").format(kind.value)
    frame: DataFrame = reader.load(folder.pop())
    return frame


def _is_told(sums: Observation) -> bool:
    """Whether Spark has told the sums. Its bus drops events when there are too many, and `get` would wait for ever."""
    told: Any = sums._jo  # noqa: SLF001 - as above
    return bool(told.future().isCompleted())


def _summed(rows: DataFrame) -> dict[str, Any]:
    return rows.agg(*_sums(rows)).collect()[0].asDict()


def _sums(rows: DataFrame) -> list[Column]:
    """Return the number of rows, and two sums over all values of all columns. They do not depend on the order of the
    rows, and a value that is missing counts in its own place.
    """
    columns = [F.col(f"`{name.replace('`', '``')}`") for name in rows.columns]
    values = [part for column in columns for part in (column, column.isNull())]
    return [
        F.count(F.lit(1)).alias("rows"),
        F.sum(F.xxhash64(*values).cast("decimal(38,0)")).alias("by_xxhash64"),
        F.sum(F.hash(*values).cast("decimal(38,0)")).alias("by_murmur3"),
    ]


def _written_as(footer: Footer) -> dict[str, str]:
    """Return how Spark writes the types that a file has, as far as it can choose."""
    types = {name for pattern, name in _INSTANTS if pattern.search(footer.columns)}
    legacy = any(int(match[1]) <= _LONG_DECIMAL for match in _LEGACY_DECIMAL.finditer(footer.columns))
    return {
        "spark.sql.parquet.outputTimestampType": types.pop() if len(types) == 1 else "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true" if legacy else "false",
    }
