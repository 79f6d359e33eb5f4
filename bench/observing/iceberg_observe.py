"""Observations of an Iceberg table with 300 snapshots and 5,000 files: the first, unchanged, after a commit."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, cast

from pyiceberg.table import StaticTable

from bench.figure import Figure, figure
from bench.observing.iceberg_tables import large_table
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits

_SNAPSHOTS, _FILES = 300, 5000
_BRIEF = (20, 200)
_TIMES = 5

_T = TypeVar("_T")


def measure(*, brief: bool = False) -> list[Figure]:
    """Observe the table as the daemon does, with a policy that needs its files. Each figure is the fastest of five, in
    time on a core.

    The baseline of the first observation is pyiceberg, which reads the same entries of the same manifests. The baseline
    of the other observations is the first.
    """
    snapshots, files = _BRIEF if brief else (_SNAPSHOTS, _FILES)
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        large = large_table(folder / "large", snapshots=snapshots, files=files)
        table = _registered(large.folder)
        first, seen = _fastest(lambda: _look(table, None))
        unchanged, _ = _fastest(lambda: _is_unchanged(table, seen))
        large.append()
        after_one, _ = _fastest(lambda: _look(table, seen))
        theirs, entries = _fastest(lambda: _entries_by_pyiceberg(large.metadata_file))
    finally:
        shutil.rmtree(folder)
    if entries != files + 1:
        raise RuntimeError(f"pyiceberg finds {entries} files")
    return [
        _compared("iceberg_observe_first", first, "pyiceberg", theirs, goal=1),
        _compared("iceberg_observe_unchanged", unchanged, "the first observation", first, goal=100),
        _compared("iceberg_observe_one_commit", after_one, "the first observation", first, goal=3),
    ]


def _registered(location: Path) -> Table:
    policy = Policy(trigger=NumCommits(at_least=1000), options=CompactionOptions())
    return Table(
        id=TableId("large"), format=ICEBERG.name, location=str(location), policies={Service.COMPACTION: policy}
    )


def _look(table: Table, previous: Observation | None) -> Observation:
    return ICEBERG.observe(table, storage_for(table.location), previous, now=datetime.now(UTC))


def _is_unchanged(table: Table, seen: Observation) -> bool:
    if not seen.vouched_for(token=ICEBERG.token(table, storage_for(table.location)), now=datetime.now(UTC)):
        raise RuntimeError("the table has changed")
    return True


def _entries_by_pyiceberg(metadata_file: Path) -> int:
    table = StaticTable.from_metadata(str(metadata_file))
    snapshot = table.current_snapshot()
    manifests = [] if snapshot is None else snapshot.manifests(table.io)
    return sum(len(one.fetch_manifest_entry(table.io)) for one in manifests)


def _fastest(what: Callable[[], _T]) -> tuple[float, _T]:
    """Return the seconds on a core of the fastest of a few calls, and its result."""
    best, found = float("inf"), None
    for _ in range(_TIMES):
        begun = time.process_time()
        found = what()
        best = min(best, time.process_time() - begun)
    return best, cast("_T", found)


def _compared(name: str, ours: float, what: str, theirs: float, *, goal: float) -> Figure:
    return figure(
        name,
        ours * 1000,
        f"ms of a core (baseline: {what})",
        judged="ratio",
        goal=(">=", goal),
        baseline=theirs * 1000,
        ratio=theirs / ours,
    )
