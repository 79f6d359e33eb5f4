"""What 10,000 registered tables cost a daemon at a cadence of 10 s while nothing happens to them: on a local disk, or
on a real S3 server.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import psutil

from bench.figure import Figure, figure
from bench.measuring.cores import core_seconds, resident_bytes
from bench.measuring.served import Served, served
from bench.polling.quiet_tables import quiet_files, watched, watched_at, write_quiet_table
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.rows import ServiceStateRow
from lakewarden.service.store.opening import open_store
from lakewarden.service.store.settings import DatabaseSettings
from tests.support.object_stores.s3_server import BUCKET, S3Server

_TABLES, _SETTLE_SECONDS, _MEASURE_SECONDS = 10_000, 30, 60
_BRIEF = (200, 1, 5)
_SCRAPES = 7
_PAGES = {"fleet": "/", "search": "/?search=t*9*&sort=bytes&page=2", "table": "/tables/{table}", "runs": "/runs"}
_LOADS = 100

_Setup = tuple[dict[str, object], Callable[[], int]]
"""The settings of a daemon, and the function that counts its polls."""

_READERS = "lakewarden.planners.reading"
"""The command of the processes that read tables for the daemon, beside its session workers."""


def measure(store: str = "local", *, brief: bool = False) -> list[Figure]:
    """Let a real daemon observe tables with a history. Measure the daemon and its reader processes: their share of a
    core and their memory. Then scrape the metrics, some times in a row, and load each kind of page a hundred times.

    On a disk the tables are in the mode `act`, with a compaction and a clean policy that are not due. The session
    worker is another process. On S3 they are in the mode `plan`, so that nothing that Spark needs must be downloaded.
    """
    tables, settle_seconds, measure_seconds = _BRIEF if brief else (_TABLES, _SETTLE_SECONDS, _MEASURE_SECONDS)
    names = [f"t{number:05}" for number in range(tables)]
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        _keep_history(folder / "daemon" / "data", names)
        with (
            _on_s3(folder, names) if store == "s3" else _on_disk(folder, names) as (settings, polls),
            served(folder / "daemon", settings) as daemon,
        ):
            daemon.until(lambda: daemon.get(f"/v1/tables/{names[-1]}")["observed_at"] is not None, within=600)
            time.sleep(settle_seconds)
            processes = _at_work(daemon.process.pid)
            before, begun, polled = core_seconds(processes), time.monotonic(), polls()
            time.sleep(measure_seconds)
            spent = time.monotonic() - begun
            share, polled = (core_seconds(processes) - before) / spent, polls() - polled
            memory = resident_bytes(_at_work(daemon.process.pid)) / 2**20
            scrape_seconds, scrape_bytes = _scraped(daemon)
            pages = _loaded(daemon, names[-1], loads=10 if brief else _LOADS)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if store == "local":
        return [
            figure("ten_thousand_tables_cpu", share * 100, "% of a core", judged="ours", goal=("<=", 5)),
            figure("ten_thousand_tables_memory", memory, "MiB resident", judged="ours", goal=("<=", 300)),
            figure("ten_thousand_tables_scrape", scrape_seconds, "s", judged="ours", goal=("<=", 0.3)),
            figure("ten_thousand_tables_scrape_size", scrape_bytes / 10**6, "MB", judged="ours", goal=("<=", 4)),
            *pages,
        ]
    return [
        figure("ten_thousand_tables_s3_cpu", share * 100, "% of a core", judged="ours", goal=("<=", 100)),
        figure("ten_thousand_tables_s3_polls", polled / spent, "polls/s", judged="ours", goal=(">=", 900)),
        figure("ten_thousand_tables_s3_memory", memory, "MiB resident", judged="ours", goal=("<=", 600)),
    ]


def _keep_history(data: Path, names: Sequence[str]) -> None:
    """Keep what earlier runs mean for the next ones: each table had a clean that found nothing, and a compaction that
    failed. Tables without it would cost less than those of a fleet.
    """
    data.mkdir(parents=True)
    kept = open_store(DatabaseSettings(), data_dir=data)
    now = datetime.now(UTC)
    for name in map(TableId, names):
        kept.keep_row(ServiceStateRow(table=name, service=Service.CLEAN, idle_after="1", idle_at=now))
        kept.keep_row(ServiceStateRow(table=name, service=Service.COMPACTION, tries=1, strikes=1))
    kept.close()


def _loaded(daemon: Served, table: str, *, loads: int) -> list[Figure]:
    """Return the usual and the longest time of each kind of page, the 50th and the 99th percentile."""
    found = []
    for name, path in _PAGES.items():
        took = []
        for _ in range(loads):
            begun = time.monotonic()
            daemon.page(path.format(table=table))
            took.append(time.monotonic() - begun)
        for percent in (50, 99):
            milliseconds = statistics.quantiles(took, n=100, method="inclusive")[percent - 1] * 1000
            found.append(
                figure(f"ten_thousand_tables_{name}_p{percent}", milliseconds, "ms", judged="ours", goal=("<=", 150))
            )
    return found


def _scraped(daemon: Served) -> tuple[float, int]:
    """Return the median time of a scrape, and the size of the last one."""
    took = []
    for _ in range(_SCRAPES):
        begun = time.monotonic()
        size = len(daemon.scrape())
        took.append(time.monotonic() - begun)
    return statistics.median(took), size


@contextmanager
def _on_disk(folder: Path, names: Sequence[str]) -> Iterator[_Setup]:
    """Write the tables, and yield the settings of a daemon that observes them. The polls are not counted."""
    for name in names:
        write_quiet_table(folder / "tables" / name)
    yield watched(folder / "tables", mode="act", poll="10s"), lambda: 0


@contextmanager
def _on_s3(folder: Path, names: Sequence[str]) -> Iterator[_Setup]:
    """Write the tables to an S3 server that runs for as long as the context is open. The server counts the polls."""
    (folder / "s3").mkdir(parents=True)
    server = S3Server(folder / "s3")
    places = {name: f"s3://{BUCKET}/{name}" for name in names}
    try:
        server.start()
        server.put_many({path: content for place in places.values() for path, content in quiet_files(place).items()})
        store = server.store().model_dump(mode="json", exclude_none=True)
        yield {"storage": [store], **watched_at(places, mode="plan", poll="10s")}, server.listings
    finally:
        server.stop()


def _at_work(daemon: int) -> Sequence[psutil.Process]:
    """Return the daemon and its reader processes. One of these ends when the others need no help any more."""
    process = psutil.Process(daemon)
    return [process, *(child for child in process.children(recursive=True) if _READERS in _command(child))]


def _command(process: psutil.Process) -> Sequence[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return ()  # it has ended
