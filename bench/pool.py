"""Ten small Hudi tables compacted one after another: through the warm pool, and with a new session process for each."""

from __future__ import annotations

from bench.figure import Figure
from bench.hands import assignment_of
from bench.small_tables import small_tables
from bench.warm_or_alone import compared


def measure() -> list[Figure]:
    """Compact two sets of ten tables under the same lock."""
    with small_tables() as tables:
        return [compared("pool", "hudi", lambda name: assignment_of(tables, tables.copy(name)), folder=tables.folder)]
