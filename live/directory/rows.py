"""The rows of a directory by duckdb, which shares no code with the writers, the services and the reader beside them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

import duckdb

from lakewarden.demo.formats.directory.reader import EXPIRED
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.writers.orders import Row
from live.journey import Journey


def rows_of(table: Path) -> tuple[Mapping[str, Row], Collection[str]]:
    """Return the rows that duckdb finds now, by key, and the keys that are in several rows. Rows that are left for ttl
    are left out.
    """
    query = f"select order_id, version, filename from read_parquet('{table}/dt=*/at=*/part-*', filename = true)"
    found = [
        Row(key=key, partition=str(Path(file).parent.relative_to(table)), value=value)
        for key, value, file in duckdb.connect().execute(query).fetchall()
        if f"/{EXPIRED}" not in file
    ]
    times = Counter(row.key for row in found)
    return {row.key: row for row in found}, {key for key, count in times.items() if count > 1}


def by_partition(table: Path, expected: Mapping[str, Row]) -> list[Journey]:
    """Compare each partition with the record. A directory has no instants: its partitions stand for them."""
    found, twice = rows_of(table)
    there, wanted = _grouped(found), _grouped(expected)
    return [
        Journey(
            instant=partition,
            operation="partition",
            wrong=count_wrong_rows(there[partition], wanted[partition]) + len(twice & there[partition].keys()),
        )
        for partition in sorted(there.keys() | wanted.keys())
    ]


def _grouped(rows: Mapping[str, Row]) -> Mapping[str, dict[str, Row]]:
    grouped: dict[str, dict[str, Row]] = defaultdict(dict)
    for key, row in rows.items():
        grouped[row.partition][key] = row
    return grouped
