"""Observing a plain directory with a million files in 100,000 partitions: at first, and after a change in one. Each
partition is looked at as if it were an hour old: a younger one is listed by each look.
"""

from __future__ import annotations

import gc
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from bench.figure import Figure, figure
from lakewarden.planners.formats.directory.format import DIRECTORY
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for

_HOURS, _FILES = 100_000, 10
_BRIEF_HOURS = 200
_LATER = timedelta(hours=1)
_MEBIBYTE = 2**20


def measure(*, brief: bool = False) -> list[Figure]:
    """Write the files to the disk, look at all, write one more, and look again as the daemon does. The memory is what
    the process has taken more after the first look than before.
    """
    hours = _BRIEF_HOURS if brief else _HOURS
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        newest = _written(folder / "large", hours)
        table = Table(id=TableId("large"), format=DIRECTORY.name, location=str(folder / "large"))
        process = psutil.Process()
        gc.collect()
        held = process.memory_info().rss
        first, seen = _look(table, None)
        held = max(1, process.memory_info().rss - held)
        (newest / "part-late").write_bytes(b"r")
        after_one, now = _look(table, seen)
    finally:
        shutil.rmtree(folder)
    if seen.token == now.token:
        raise RuntimeError("the change was not seen")
    return [
        figure(
            "directory_observe_first",
            first / (hours * _FILES) * 1e6,
            "us of a core a file",
            judged="ours",
            goal=("<=", 30),
        ),
        figure("directory_observe_memory", held / _MEBIBYTE, "MiB", judged="ours", goal=("<=", 256)),
        figure(
            "directory_observe_one_change",
            after_one,
            "s of a core (baseline: the first look)",
            judged="ratio",
            goal=(">=", 10),
            baseline=first,
            ratio=first / after_one,
        ),
    ]


def _written(folder: Path, hours: int) -> Path:
    """Write the files of so many hours, each a partition, and return the folder of the newest."""
    begun = datetime(2015, 1, 1, tzinfo=UTC)
    for hour in range(hours):
        place = folder / f"{begun + timedelta(hours=hour):dt=%Y-%m-%d/hour=%H}"
        place.mkdir(parents=True)
        for number in range(_FILES):
            (place / f"part-{number}").write_bytes(b"r")
    return place


def _look(table: Table, previous: Observation | None) -> tuple[float, Observation]:
    """Return the seconds of a core that a look took, and what it saw."""
    begun = time.process_time()
    found = DIRECTORY.observe(table, storage_for(table.location), previous, now=datetime.now(UTC) + _LATER)
    return time.process_time() - begun, found
