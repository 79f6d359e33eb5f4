"""What an ORC file says of its columns, by the library that Spark reads and writes it with. Arrow knows less of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.settings import shown

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
    for number, one in enumerate(schema.getChildren() or ()):
        _refuse_unknown(one, f"column {shown(fields[number])}" if fields else column)


def _columns(schema: Any) -> Iterator[str]:
    names = list(schema.getFieldNames()) if _name_of(schema) == "struct" else []
    if not names:
        yield str(schema.toString())
    for name, one in zip(names, schema.getChildren() or (), strict=False):
        yield f"{name}: {one.toString()}"


def _attributes(schema: Any) -> Iterator[str]:
    """Yield the attributes of a type and of those in it."""
    for name in sorted(schema.getAttributeNames()):
        value = schema.getAttributeValue(name)
        if (name, value) != (_SPARKS_TYPE, _name_of(schema)):
            yield f"attribute {name} of column {schema.getId()}: {value}"
    for one in schema.getChildren() or ():
        yield from _attributes(one)
