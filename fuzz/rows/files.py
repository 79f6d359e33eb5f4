"""A reader of single data files that knows nothing of tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import fastavro
from pyarrow import orc
from pyarrow import parquet as pq


def rows_of(file: Path, kind: str) -> list[dict[str, Any]]:
    """Return the rows of a file of Parquet, ORC, Avro, lines of JSON, or CSV with an id and a text."""
    match kind:
        case "parquet":
            return list(pq.ParquetFile(file).read().to_pylist())
        case "orc":
            return list(orc.read_table(file).to_pylist())
        case "avro":
            with file.open("rb") as content:
                found: Any = list(fastavro.reader(content))
                return list(found)
        case "json":
            return [json.loads(line) for line in file.read_text().splitlines()]
        case _:
            with file.open(newline="") as lines:
                return [{"id": int(row[0]), "v": row[1]} for row in csv.reader(lines)]
