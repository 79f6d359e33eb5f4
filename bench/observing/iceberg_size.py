"""A table of ten million files and fifty thousand snapshots: the cost of its looks, its clean and its orphans."""

from __future__ import annotations

import multiprocessing
import resource
import shutil
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.figure import Figure, figure
from bench.observing.big_iceberg_table import BigIcebergTable, newest_version
from bench.observing.iceberg_orphans import ShownFiles, orphans
from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.deletion.reachable import only_reachable_from
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.options.service_options import ArchiveOptions, CleanOptions, CompactionOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table, TableId
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import storage_for
from lakewarden.planners.triggers import NumCommits

_MEMORY = 3 * 2**29
_TIMES = 5
_OPTIONS = {
    Service.COMPACTION: CompactionOptions(),
    Service.CLEAN: CleanOptions(),
    Service.ARCHIVE: ArchiveOptions(),
}


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the table is, and how many snapshots a clean expires."""

    snapshots: int
    files: int
    partitions: int
    expired: int


WHOLE = Size(snapshots=50_000, files=10_000_000, partitions=500, expired=5000)
USUAL = Size(snapshots=2000, files=100_000, partitions=50, expired=500)
BRIEF = Size(snapshots=200, files=2000, partitions=10, expired=50)


def measure(*, whole: bool = False, brief: bool = False) -> list[Figure]:
    """Write the table (`whole`: a quarter of an hour), and observe it in a process of 1.5 GiB: as often as it takes to
    read all of it, and after one more commit. Then find what a clean would delete, and the orphans beside the files of
    the table. In time on a core.

    The goals are those of a table of ten million files: it is read in five minutes of a core, its clean takes a quarter
    of an hour, and its orphans ten minutes. A reader process and a worker have 1.5 GiB.
    """
    size = BRIEF if brief else WHOLE if whole else USUAL
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        table = BigIcebergTable(
            folder / "large", snapshots=size.snapshots, files=size.files, partitions=size.partitions
        )
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            looks = alone.submit(_looks, table).result()
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            clean = alone.submit(_clean, table.folder, size.expired).result()
        shown = ShownFiles(table.folder, files=table.files, partitions=size.partitions)
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
            found = alone.submit(orphans, shown, memory=_MEMORY).result()
    finally:
        shutil.rmtree(folder)
    a_file, an_old_file = (one / size.files * 1e6 for one in (looks["first"], found["seconds"]))
    return [
        figure("iceberg_size_first_looks", a_file, "us of a core a file", judged="ours", goal=("<=", 30)),
        figure("iceberg_size_memory", looks["memory"] / 2**20, "MiB", judged="ours", goal=("<=", 1536)),
        figure("iceberg_size_one_commit", looks["one_commit"], "s of a core", judged="ours", goal=("<=", 0.2)),
        figure("iceberg_size_clean", clean["seconds"], "s of a core", judged="ours", goal=("<=", 900)),
        figure("iceberg_size_clean_memory", clean["memory"] / 2**20, "MiB", judged="ours", goal=("<=", 1536)),
        figure("iceberg_size_orphans", an_old_file, "us of a core a file", judged="ours", goal=("<=", 60)),
        figure("iceberg_size_orphans_memory", found["memory"] / 2**20, "MiB", judged="ours", goal=("<=", 1536)),
    ]


def _looks(written: BigIcebergTable) -> dict[str, float]:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
    table = Table(
        id=TableId("large"),
        format=ICEBERG.name,
        location=str(written.folder),
        options=IcebergTableOptions(),
        policies={
            service: Policy(trigger=NumCommits(at_least=1000), options=options) for service, options in _OPTIONS.items()
        },
    )
    begun = time.process_time()
    seen = _look(table, None)
    while seen.view.faults:
        seen = _look(table, seen)
    first, one_commit = time.process_time() - begun, float("inf")
    for _ in range(_TIMES):
        written.append()
        begun = time.process_time()
        seen = _look(table, seen)
        one_commit = min(one_commit, time.process_time() - begun)
    if not seen.view.backlogs[Service.COMPACTION].files or seen.view.faults:
        raise RuntimeError(f"the table was not read: {seen.view.faults}")
    return {"first": first, "one_commit": one_commit, "memory": _peak()}


def _look(table: Table, previous: Observation | None) -> Observation:
    return ICEBERG.observe(table, storage_for(table.location), previous, now=datetime.now(UTC))


def _clean(folder: Path, expired: int) -> dict[str, float]:
    storage = storage_for(str(folder))
    begun = time.process_time()
    metadata = read_table(str(newest_version(folder)), storage)
    options = CleanOptions(max_snapshots=expired, max_snapshot_age=timedelta(days=5))
    ids = expirable(metadata, options, IcebergTableOptions(), datetime.now(UTC)).ids
    found = only_reachable_from(ids, metadata, storage)
    if len(ids) != expired or len(found) < expired:
        raise RuntimeError(f"{len(ids)} snapshots would expire, and {len(found)} files go")
    return {"seconds": time.process_time() - begun, "memory": _peak()}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0
