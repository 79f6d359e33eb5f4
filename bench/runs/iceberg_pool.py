"""Ten small Iceberg tables compacted one after another: in the warm pool, and with a new session for each."""

from __future__ import annotations

from bench.figure import Figure
from bench.observing.iceberg_tables import iceberg_tables
from bench.runs.warm_or_alone import compared
from lakewarden.executors.contract import Assignment
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId


def measure(*, brief: bool = False) -> list[Figure]:
    """Compact two sets of ten tables."""
    with iceberg_tables() as tables:
        return [
            compared(
                "iceberg_pool",
                "iceberg",
                lambda name: Assignment(
                    run=RunId(name),
                    epoch=1,
                    table=TableId(name),
                    format="iceberg",
                    location=str(tables.small(name)),
                    service=Service.COMPACTION,
                ),
                folder=tables.folder,
                brief=brief,
            )
        ]
