"""Ten small Hudi tables compacted: in the warm pool, and one after another with a new session process for each."""

from __future__ import annotations

from bench.figure import Figure
from bench.runs.granting_pool import assignment_of
from bench.runs.small_tables import small_tables
from bench.runs.warm_or_alone import compared


def measure(*, brief: bool = False) -> list[Figure]:
    """Compact two sets of ten tables under the same lock."""
    with small_tables() as tables:
        return [
            compared(
                "pool", "hudi", lambda name: assignment_of(tables, tables.copy(name)), folder=tables.folder, brief=brief
            )
        ]
