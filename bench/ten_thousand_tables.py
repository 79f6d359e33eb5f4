"""What 10,000 registered tables cost a daemon at a cadence of 10 s while nothing happens to them: on a local disk, or
on a real S3 server.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from bench.cores import core_seconds
from bench.figure import Figure, figure
from bench.quiet_tables import quiet_files, watched, watched_at, write_quiet_table
from bench.served import served
from tests.support.s3_server import BUCKET, S3Server

_NAMES = [f"t{number:05}" for number in range(10_000)]
_SETTLE_SECONDS = 30
_MEASURE_SECONDS = 60

_Scene = tuple[dict[str, object], Callable[[], int]]
"""The settings of a daemon, and what counts its polls."""

_READERS = "lakewarden.planners.reading"
"""What the processes run that read tables for the daemon, beside its session workers."""


def measure(store: str = "local") -> list[Figure]:
    """Let a real daemon watch the tables, and measure it with the processes that read for it: their share of a core and
    their memory.

    On a disk the tables may act, with a compaction and a clean policy that are not due; the session worker is another
    process. On S3 they are to be planned for: nothing that Spark needs there has to be fetched.
    """
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        with (
            _on_s3(folder) if store == "s3" else _on_disk(folder) as (settings, polls),
            served(folder / "daemon", settings) as daemon,
        ):
            daemon.until(lambda: daemon.get(f"/v1/tables/{_NAMES[-1]}")["observed_at"] is not None, within=600)
            time.sleep(_SETTLE_SECONDS)
            processes = _at_work(daemon.process.pid)
            before, begun, polled = core_seconds(processes), time.monotonic(), polls()
            time.sleep(_MEASURE_SECONDS)
            spent = time.monotonic() - begun
            share, polled = (core_seconds(processes) - before) / spent, polls() - polled
            memory = sum(process.memory_info().rss for process in processes) / 2**20
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if store == "local":
        return [
            figure("ten_thousand_tables_cpu", share * 100, "% of a core", judged="ours", goal=("<=", 10)),
            figure("ten_thousand_tables_memory", memory, "MiB resident", judged="ours", goal=("<=", 400)),
        ]
    return [
        figure("ten_thousand_tables_s3_cpu", share * 100, "% of a core", judged="ours", goal=("<=", 100)),
        figure("ten_thousand_tables_s3_polls", polled / spent, "polls/s", judged="ours", goal=(">=", 900)),
        figure("ten_thousand_tables_s3_memory", memory, "MiB resident", judged="ours", goal=("<=", 600)),
    ]


@contextmanager
def _on_disk(folder: Path) -> Iterator[_Scene]:
    """Write the tables, and yield the settings of a daemon that watches them. Nobody counts its polls."""
    for name in _NAMES:
        write_quiet_table(folder / "tables" / name)
    yield watched(folder / "tables", mode="act", poll="10s"), lambda: 0


@contextmanager
def _on_s3(folder: Path) -> Iterator[_Scene]:
    """Write the tables to an S3 server that is there for as long as the bracket is open. It counts the polls."""
    (folder / "s3").mkdir(parents=True)
    server = S3Server(folder / "s3")
    places = {name: f"s3://{BUCKET}/{name}" for name in _NAMES}
    try:
        server.start()
        server.put_many({path: content for place in places.values() for path, content in quiet_files(place).items()})
        store = server.store().model_dump(mode="json", exclude_none=True)
        yield {"storage": [store], **watched_at(places, mode="plan", poll="10s")}, server.listings
    finally:
        server.stop()


def _at_work(daemon: int) -> Sequence[psutil.Process]:
    """Return the daemon and the processes that read for it."""
    process = psutil.Process(daemon)
    return [process, *(child for child in process.children(recursive=True) if _READERS in _command(child))]


def _command(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ()  # it has ended
