"""What the footers of Parquet and ORC files say: which files can be rewritten as one, and whether the new ones say the
same.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import orc
from pyarrow import parquet as pq

from lakewarden.executors.programs.directory.rewriting.refused import NotRewrittenError
from lakewarden.planners.formats.directory.options.compaction_options import FileFormat
from lakewarden.planners.settings import shown

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
    """Return the files with the columns that most of them have, and the sum of their footers. Raises RefusedError if
    none can be read, or one says what a rewrite would lose.
    """
    footers = {file: footer for file in files if (footer := _footer(file, kind, of_orc)) is not None}
    if not footers:
        raise NotRewrittenError("no footer of its files can be read")
    columns, _ = Counter(footer.columns for footer in footers.values()).most_common(1)[0]
    chosen = [file for file in files if file in footers and footers[file].columns == columns]
    codec, _ = Counter(footers[file].codec for file in chosen).most_common(1)[0]
    return chosen, Footer(columns=columns, codec=codec, rows=sum(footers[file].rows for file in chosen))


def rows_of(files: Sequence[Path], kind: FileFormat, of_orc: Columns, like: Footer) -> int:
    """Return how many rows the footers of new files say. Raises RefusedError if their columns are not those of the old
    ones.
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
    told = pq.read_metadata(str(file))
    unknown = (told.metadata or {}).keys() - _KNOWN_METADATA - {_ARROW}
    if _ARROW in (told.metadata or {}):
        _refuse_types_of_arrow(told.schema.to_arrow_schema().remove_metadata())
    if unknown:
        raise NotRewrittenError(f"a footer carries {shown(min(unknown).decode(errors='replace'))}, which would be lost")
    schema = told.schema
    if _FIELD_ID.search(str(schema)):
        raise NotRewrittenError("its columns have field ids, which would be lost")
    columns = "\n".join(
        f"{one.path}: {one.physical_type}({one.length}) {_meaning(one)} {one.max_repetition_level}"
        for one in (schema.column(number) for number in range(len(schema)))
    )
    codec = told.row_group(0).column(0).compression if told.num_row_groups and told.num_columns else "SNAPPY"
    return Footer(columns=columns, codec=codec.lower(), rows=told.num_rows)


@lru_cache(maxsize=64)
def _refuse_types_of_arrow(schema: pa.Schema) -> None:
    """Raise RefusedError if Arrow reads another schema from a file that does not carry it, as Spark's do not."""
    plain = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), plain, store_schema=False)
    for told, read in zip(schema, pq.read_schema(pa.BufferReader(plain.getvalue())), strict=True):
        if not told.equals(read, check_metadata=True):
            raise NotRewrittenError(
                f"a footer carries what Arrow alone knows of {shown(told.name)} ({told.type}), which would be lost"
            )


def _meaning(column: Any) -> str:
    """Return the logical type of a column. A plain number says the same with and without one, and it does not matter
    whether a footer says it in the older terms, too.
    """
    told = str(column.logical_type)
    if _PLAIN.get(told) == column.physical_type:
        return "None"
    return _OLDER_TERMS.sub("", told)


def _of_orc(file: Path, columns: Columns) -> Footer:
    told = orc.ORCFile(str(file))
    return Footer(columns=columns(file), codec=str(told.compression).lower(), rows=told.nrows)


def _first_difference(old: str, new: str) -> str:
    for one, other in zip(old.split("\n"), new.split("\n"), strict=False):
        if one != other:
            return f"{shown(one)} becomes {shown(other)}"
    return "some are missing"
