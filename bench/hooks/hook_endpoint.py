"""How fast a real daemon answers Hudi's commit callbacks if 200 of them come each second."""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from bench.figure import Figure, figure
from bench.hooks.callbacks import Callbacks
from bench.measuring.served import served
from bench.polling.quiet_tables import watched, write_quiet_table
from lakewarden.demo.daemon import Child, free_port

_TABLES = 100
_PER_SECOND = 200
_WARM_UP_SECONDS, _SECONDS = 10, 20
"""In the first seconds the readers start, and each table is decided on for the first time."""
_BRIEF_WARM_UP_SECONDS, _BRIEF_SECONDS = 1, 2


def measure(*, brief: bool = False) -> list[Figure]:
    """Send each callback when it is due, whatever happened to those before, and time each from when it was due.

    Arrivals are random, as those of many writers are. The daemon observes every table that a callback names, and
    decides on it. The baseline is the same callbacks to a server that does nothing with them.
    """
    warm_up, seconds = (_BRIEF_WARM_UP_SECONDS, _BRIEF_SECONDS) if brief else (_WARM_UP_SECONDS, _SECONDS)
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    tables = [folder / "tables" / f"t{number:03}" for number in range(_TABLES)]
    try:
        for table in tables:
            write_quiet_table(table)
        with served(folder / "daemon", watched(folder / "tables", mode="plan", poll="1h")) as daemon:
            ours = asyncio.run(_stream(daemon.port, tables, warm_up, seconds))
        with _bare_server(folder / "bare.log") as port:
            bare = asyncio.run(_stream(port, tables, warm_up, seconds))
    finally:
        shutil.rmtree(folder)
    return [_percentile(50, ours, bare, at_most=10), _percentile(99, ours, bare, at_most=20)]


def _percentile(which: int, ours: Sequence[float], bare: Sequence[float], *, at_most: float) -> Figure:
    mine, machine = (statistics.quantiles(seconds, n=100)[which - 1] * 1000 for seconds in (ours, bare))
    name = f"hook_endpoint_p{which}"
    ratio = mine / machine
    return figure(name, mine, "ms", judged="ours", goal=("<=", at_most), baseline=machine, ratio=ratio)


async def _stream(port: int, tables: Sequence[Path], warm_up: int, seconds: int) -> list[float]:
    """Return the seconds that each callback took, without those of the warm-up."""
    callbacks, rng = Callbacks(port), random.Random(0)
    begun, due, sent = time.monotonic(), 0.0, []
    for table in itertools.cycle(tables):
        due += rng.expovariate(_PER_SECOND)
        if due > warm_up + seconds:
            break
        await asyncio.sleep(begun + due - time.monotonic())
        sent.append((due, asyncio.create_task(_answered(callbacks, table, begun + due))))
    return [await task for due, task in sent if due > warm_up]


async def _answered(callbacks: Callbacks, table: Path, due: float) -> float:
    await callbacks.send(str(table))
    return time.monotonic() - due


@contextmanager
def _bare_server(log: Path) -> Iterator[int]:
    port = free_port()
    process = Child("bare server", [sys.executable, "-m", "bench.hooks.bare_server", str(port)], log=log)
    try:
        while not _listens(port):
            time.sleep(0.05)
        yield port
    finally:
        process.end(grace=timedelta(seconds=5))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
