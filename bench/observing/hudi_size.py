"""A Hudi table of one tebibyte: the cost of its looks.

Its metadata and the names and sizes of its files are those of such a table. The files are sparse: they hold nothing.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

from bench.figure import Figure, figure
from lakewarden.planners.formats.hudi import HUDI, THOROUGH
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from lakewarden.service.config.policies import first_policies
from tests.support.hudi.hudi_look import made, registered
from tests.support.hudi.hudi_table import HudiTable, base_file, commit_content, log_file

_T = TypeVar("_T")
_BASE_BYTES, _LOG_BYTES = 128 * 2**20, 4 * 2**20
_SERVICES = (Service.COMPACTION, Service.CLUSTERING, Service.CLEAN, Service.ARCHIVE)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large the table is: file groups by partition, and commits, each with log files in some file groups."""

    partitions: int
    groups: int
    commits: int
    touched: int


TEBIBYTE = Size(partitions=64, groups=128, commits=300, touched=200)
BRIEF = Size(partitions=2, groups=8, commits=20, touched=4)


def measure(*, brief: bool = False) -> list[Figure]:
    """Write the table, and observe it in time on a core: for the first time with all that its commits wrote, after one
    more commit, and unchanged.
    """
    size = BRIEF if brief else TEBIBYTE
    with tempfile.TemporaryDirectory(prefix="lakewarden-bench-") as folder:
        table = _written(Path(folder), size)
        wanted, storage = replace(registered(table, *_SERVICES), policies=first_policies(HUDI)), LocalStorage()
        first, taken = _cpu(lambda: THOROUGH.observe(wanted, storage, None, now=table.clock.now()))
        _, unchanged = _cpu(lambda: HUDI.token(wanted, storage))
        _commit(table, size, size.commits)
        _, one_commit = _cpu(lambda: THOROUGH.observe(wanted, storage, first, now=table.clock.now()))
    return [
        figure("hudi_size_first_look", taken, "s of a core", judged="ours", goal=("<=", 10)),
        figure("hudi_size_one_commit", one_commit, "s of a core", judged="ours", goal=("<=", 0.5)),
        figure("hudi_size_unchanged", unchanged * 1000, "ms of a core", judged="ours", goal=("<=", 10)),
    ]


def _written(folder: Path, size: Size) -> HudiTable:
    table = made(folder)
    stats = {
        _partition(p): [base_file(_group(p, n), "", size=_BASE_BYTES) for n in range(size.groups)]
        for p in range(size.partitions)
    }
    at = table.begin_write(heartbeat=False)
    for partition in stats:
        (table.folder / partition).mkdir()
    _commit_files(table, at, {p: [{**one, **_named(p, one, at)} for one in some] for p, some in stats.items()})
    for number in range(size.commits):
        _commit(table, size, number)
    table.clock.advance(timedelta(minutes=1))
    return table


def _commit(table: HudiTable, size: Size, number: int) -> None:
    """Commit log files in file groups that differ from commit to commit."""
    at = table.begin_write(heartbeat=False)
    stats: dict[str, list[dict[str, Any]]] = {}
    for p, n in _touched(size, number):
        one = log_file(_group(p, n), at, size=_LOG_BYTES)
        stats.setdefault(_partition(p), []).append({**one, **_named(_partition(p), one, at)})
    _commit_files(table, at, stats)


def _touched(size: Size, number: int) -> Iterator[tuple[int, int]]:
    for step in range(size.touched):
        place = (number * size.touched + step) % (size.partitions * size.groups)
        yield place % size.partitions, place // size.partitions


def _commit_files(table: HudiTable, at: str, stats: Mapping[str, list[dict[str, Any]]]) -> None:
    """Make the files of a commit, without their content, and complete it."""
    for some in stats.values():
        for one in some:
            path = table.folder / str(one["path"])
            path.touch()
            os.truncate(path, int(one["fileSizeInBytes"]))
            stamp = table.clock.now().timestamp()
            os.utime(path, (stamp, stamp))
    table.commit_write(at, content=commit_content(stats))


def _named(partition: str, stat: Mapping[str, Any], at: str) -> dict[str, str]:
    """Return the path of a file of a commit, in its partition."""
    name = str(stat["path"]).rpartition("/")[2].replace("_.parquet", f"_{at}.parquet")
    return {"path": f"{partition}/{name}"}


def _partition(number: int) -> str:
    return f"part=p{number}"


def _group(partition: int, number: int) -> str:
    return f"{partition:08d}-0000-4000-8000-{number:012d}-0"


def _cpu(act: Callable[[], _T]) -> tuple[_T, float]:
    """Return a result, and the seconds of a core that it took."""
    begun = time.process_time()
    result = act()
    return result, time.process_time() - begun
