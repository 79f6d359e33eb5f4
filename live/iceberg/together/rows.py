"""The rows that each table must hold, by its writer's record, and the rows that it holds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

from pyiceberg.table import Table

from lakewarden.demo.writers.orders import Batch, Record, Row, rows_after
from live.iceberg.together.streams import place
from live.iceberg.together.tables import BRANCH, Name
from tests.support.iceberg.iceberg_upserts import rows_by_the_spec


def expected(name: Name, record: Record) -> Mapping[tuple[Name, str], Mapping[str, Row]]:
    """Return the rows of each table and branch that the writer of `name` has filled, by key."""
    acknowledged = [(number, batch) for number, batch in zip(count(1), record.acknowledged(), strict=False)]
    first_on_branch = next((n for n, _ in acknowledged if place(name, n)[1] == BRANCH), None)
    homes: dict[tuple[Name, str], list[Batch]] = {}
    for number, batch in acknowledged:
        table, branch = place(name, number)
        homes.setdefault((table, branch), []).append(batch)
        if first_on_branch is not None and number < first_on_branch:
            homes.setdefault((table, BRANCH), []).append(batch)
    return {home: rows_after(batches) for home, batches in homes.items()}


def found(table: Table, branch: str) -> tuple[Mapping[str, Row], int]:
    """Return the rows of a branch by key, and how many rows have a key that another row also has."""
    snapshot = table.snapshot_by_name(branch)
    rows = [] if snapshot is None else rows_by_the_spec(table, snapshot)
    by_key = {str(id_): Row(key=str(id_), partition=str(p), value=int(value)) for id_, p, value in rows}
    return by_key, len(rows) - len(by_key)
