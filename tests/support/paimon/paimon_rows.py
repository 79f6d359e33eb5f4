"""A Paimon table with rows in its data files, written without any code of Paimon."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.paimon.paimon_table import BATCH, PaimonTable

INSERT, DELETE = 0, 3

Change = tuple[str, int, int]
"""The key of an order, its version, and the kind of the change."""


class OrdersTable(PaimonTable):
    """Its orders are in one bucket."""

    sequence = 0

    def write(self, *changes: Change, identifier: int = BATCH, user: str = "writer-1") -> int:
        """Commit changes in one file of level 0. Return the snapshot."""
        return self.append(self.with_rows(*changes), user=user, identifier=identifier)

    def rewrite(self, *rows: Change, user: str = "lakewarden-run1") -> int:
        """Commit a full compaction that leaves these rows. Return the snapshot."""
        entries = [(1, one) for one in self.live()] + [(0, replace(self.with_rows(*rows), level=5))]
        return self.commit(entries, kind="COMPACT", user=user)

    def with_rows(self, *changes: Change, bucket: int = 0, region: str = "north") -> Any:
        """Return a new file with changes."""
        file, rows = self.file(bucket=bucket), []
        for key, version, kind in changes:
            self.sequence += 1
            row = {"_SEQUENCE_NUMBER": self.sequence, "_VALUE_KIND": kind}
            rows.append({**row, "order_id": key, "region": region, "version": version})
        place = self.place(file.name, bucket)
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), place)
        return file

    def place(self, name: str, bucket: int = 0) -> Path:
        """Return the path of a data file."""
        return self.folder / "p=0" / f"bucket-{bucket}" / name
