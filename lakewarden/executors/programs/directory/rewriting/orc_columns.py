"""What an ORC file says of its columns, by the library that Spark reads and writes it with. Arrow knows less of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.settings import shown

_OF_SPARK = "org.apache.spark.version"
_SPARKS_TYPE = "spark.sql.catalyst.type"


def columns_of_orc(spark: Any, file: Path) -> str:
    """Return the columns of an ORC file with their types and attributes. Raises NotRewrittenError if the file has other
    metadata, and Py4JJavaError for a damaged one.

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
        return "\n".join([*_columns(schema), *_attributes(schema)])
    finally:
        reader.close()


def _columns(schema: Any) -> Iterator[str]:
    names = list(schema.getFieldNames()) if str(schema.getCategory().getName()) == "struct" else []
    if not names:
        yield str(schema.toString())
    for name, one in zip(names, schema.getChildren() or (), strict=False):
        yield f"{name}: {one.toString()}"


def _attributes(schema: Any) -> Iterator[str]:
    """Yield the attributes of a type and of those in it."""
    for name in sorted(schema.getAttributeNames()):
        value = schema.getAttributeValue(name)
        if (name, value) != (_SPARKS_TYPE, schema.getCategory().getName()):
            yield f"attribute {name} of column {schema.getId()}: {value}"
    for one in schema.getChildren() or ():
        yield from _attributes(one)
