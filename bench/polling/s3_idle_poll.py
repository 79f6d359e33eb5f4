"""How many polls of unchanged tables on a real S3 server one core does, from many threads of one process."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.figure import Figure, figure
from bench.polling.quiet_tables import quiet_files
from lakewarden.planners.formats.hudi.format import HudiFormat
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import FsspecStorage, Storages
from tests.support.object_stores.s3_server import BUCKET, S3Server

_TABLES = 50
_COMMITS = {"young": 4, "": 25, "long": 66}
"""Hudi archives between 20 and 30 commits by default. With three files each, the longest timeline has 198."""

_ROUNDS = 20
_BRIEF_TABLES, _BRIEF_ROUNDS = 5, 2
_THREADS = 32


def measure(*, brief: bool = False) -> list[Figure]:
    """Poll the tables again and again, and count the processor time of this process alone, with all its threads.

    The baseline is s3fs, which sends the same requests. It runs on one thread, since it holds the interpreter while it
    works.
    """
    tables, rounds = (_BRIEF_TABLES, _BRIEF_ROUNDS) if brief else (_TABLES, _ROUNDS)
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    server = S3Server(folder)
    try:
        server.start()
        return [_figure(server, name, commits, count=tables, rounds=rounds) for name, commits in _COMMITS.items()]
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _figure(server: S3Server, name: str, commits: int, *, count: int, rounds: int) -> Figure:
    tables = [_table(f"{name or 'usual'}-{number:03}") for number in range(count)]
    for table in tables:
        server.put_many(quiet_files(table.location, commits=commits))
    with ThreadPoolExecutor(_THREADS) as threads:
        ours = _polls_per_second(
            tables * rounds,
            Storages([server.store()]).of(tables[0].location),
            threads.map,
        )
    baseline = _polls_per_second(tables, FsspecStorage(server.files), map)
    whole = "_".join(filter(None, ["s3_idle_poll", name]))
    ratio = ours / baseline
    return figure(whole, ours, "polls/s", judged="ours", goal=(">=", 1_500), baseline=baseline, ratio=ratio)


def _polls_per_second(
    tables: Sequence[Table],
    storage: Storage,
    mapped: Callable[[Callable[[Table], str], Sequence[Table]], Iterable[str]],
) -> float:
    """Return how many polls one second of processor time is enough for. The first poll of each table reads more."""
    hudi = HudiFormat()
    first = {table.location: hudi.token(table, storage) for table in tables}

    def poll(table: Table) -> str:
        token = hudi.token(table, storage)
        if token != first[table.location]:
            raise RuntimeError(f"{table.location} has changed: it was not idle")
        return token

    begun = time.process_time()
    polls = sum(1 for _ in mapped(poll, tables))
    return polls / (time.process_time() - begun)


def _table(name: str) -> Table:
    return Table(id=TableId(name), format="hudi", location=f"s3://{BUCKET}/{name}")
