"""Observing a Paimon table with 100,000 files of level 0: at first, unchanged, and after one commit."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar, cast

from bench.figure import Figure, figure
from lakewarden.planners.formats.paimon import PAIMON
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for
from tests.support.paimon.paimon_table import PaimonTable

_FILES, _COMMITS, _PARTITIONS, _BUCKETS = 100_000, 50, 50, 10
_BRIEF = 2_000
_TIMES = 5
_MEBIBYTE = 2**20

_T = TypeVar("_T")


def measure(*, brief: bool = False) -> list[Figure]:
    """Look at the table as the daemon does, each time the fastest of five, in seconds or milliseconds of a core. The
    look after one commit is held against the first.
    """
    files = _BRIEF if brief else _FILES
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        written = _written(folder / "large", files)
        table = Table(id=TableId("large"), format=PAIMON.name, location=str(written.folder))
        first, seen = _fastest(lambda: _look(table, None))
        unchanged, _ = _fastest(lambda: _is_unchanged(table, seen))
        written.append(*(written.file(p % _PARTITIONS, size=_MEBIBYTE) for p in range(files // _COMMITS)))
        after_one, now = _fastest(lambda: _look(table, seen))
    finally:
        shutil.rmtree(folder)
    if now.view.backlogs[Service.COMPACTION].files != files + files // _COMMITS:
        raise RuntimeError(f"the view has {now.view.backlogs[Service.COMPACTION].files} files")
    return [
        figure("paimon_observe_first", first, "s of a core", judged="ours", goal=("<=", 2)),
        figure(
            "paimon_observe_unchanged",
            unchanged * 1000,
            "ms of a core (baseline: the first look)",
            judged="ratio",
            goal=(">=", 100),
            baseline=first * 1000,
            ratio=first / unchanged,
        ),
        figure(
            "paimon_observe_one_commit",
            after_one * 1000,
            "ms of a core (baseline: the first look)",
            judged="ratio",
            goal=(">=", 20),
            baseline=first * 1000,
            ratio=first / after_one,
        ),
    ]


def _written(folder: Path, files: int) -> PaimonTable:
    """Return a table with so many files of level 0, by 50 commits, in 50 partitions of 10 buckets."""
    table = PaimonTable(folder, clock=ManualClock(), options={"bucket": str(_BUCKETS), "write-only": "true"})
    for commit in range(_COMMITS):
        places = range(commit * (files // _COMMITS), (commit + 1) * (files // _COMMITS))
        added = (table.file(at % _PARTITIONS, bucket=at // _PARTITIONS % _BUCKETS, size=_MEBIBYTE) for at in places)
        table.append(*added, merging=commit == _COMMITS - 1)
    return table


def _look(table: Table, previous: Observation | None) -> Observation:
    return PAIMON.observe(table, storage_for(table.location), previous, now=datetime.now(UTC))


def _is_unchanged(table: Table, seen: Observation) -> bool:
    if PAIMON.token(table, storage_for(table.location)) != seen.token:
        raise RuntimeError("the table has changed")
    return True


def _fastest(what: Callable[[], _T]) -> tuple[float, _T]:
    """Return the seconds of a core that the fastest of a few times took, and what came of it."""
    best, found = float("inf"), None
    for _ in range(_TIMES):
        begun = time.process_time()
        found = what()
        best = min(best, time.process_time() - begun)
    return best, cast("_T", found)
