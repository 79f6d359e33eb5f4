"""A flood of 10,000 commit hooks, half of them for tables that are not registered. The daemon's memory stays flat."""

from __future__ import annotations

import asyncio
import itertools
import math
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from bench.figure import Figure, figure
from bench.hooks.callbacks import Callbacks
from bench.measuring.served import Served, served
from bench.polling.quiet_tables import watched, write_quiet_table

_TABLES, _WARM_UP, _HOOKS = 1_000, 1_000, 10_000
_BRIEF = (50, 100, 500)
_AT_ONCE = 32


def measure(*, brief: bool = False) -> list[Figure]:
    """Send hooks as fast as they are answered, and watch the daemon's resident memory until it has caught up.

    Every hook for an unknown table names another one. The known tables are named in turn, each several times. The
    baseline is the memory after a smaller flood, which warms everything up. If several hooks name a table before it is
    observed, one observation serves all of them. So the flood leaves nothing behind when it is over.
    """
    tables_there, warm_up, sent = _BRIEF if brief else (_TABLES, _WARM_UP, _HOOKS)
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    tables = [folder / "tables" / f"t{number:04}" for number in range(tables_there)]
    strangers = (folder / "strangers" / str(number) for number in itertools.count())
    hooks = (path for pair in zip(itertools.cycle(tables), strangers, strict=False) for path in pair)
    try:
        for table in tables:
            write_quiet_table(table)
        with served(folder / "daemon", watched(folder / "tables", mode="plan", poll="1h")) as daemon:
            asyncio.run(_flood(daemon, itertools.islice(hooks, warm_up)))
            _catch_up(daemon, tables[0])
            before = _resident_mib(daemon)
            most = asyncio.run(_flood(daemon, itertools.islice(hooks, sent)))
            seconds = _catch_up(daemon, tables[0])
            most = max(most, _resident_mib(daemon))
    finally:
        shutil.rmtree(folder)
    return [
        figure("hook_flood_memory", most - before, "MiB more", judged="ours", goal=("<=", 10), baseline=before),
        figure("hook_flood_next_look", seconds, "s, hook to observation", judged="ours", goal=("<=", 1)),
    ]


async def _flood(daemon: Served, hooks: Iterable[Path]) -> float:
    """Send all hooks. Returns the most memory seen meanwhile, in MiB."""
    waiting = iter(hooks)
    senders = [asyncio.create_task(_send_all(Callbacks(daemon.port), waiting)) for _ in range(_AT_ONCE)]
    most = 0.0
    while not all(sender.done() for sender in senders):
        most = max(most, _resident_mib(daemon))
        await asyncio.sleep(0.05)
    for sender in senders:
        await sender
    return most


async def _send_all(callbacks: Callbacks, waiting: Iterator[Path]) -> None:
    for path in waiting:
        await callbacks.send(str(path))


def _catch_up(daemon: Served, table: Path) -> float:
    """Announce one more commit, and return the seconds until the daemon has observed its table."""
    begun = time.monotonic()
    asyncio.run(Callbacks(daemon.port).send(str(table)))
    while (ago := _looked_ago(daemon, table)) > time.monotonic() - begun:
        if time.monotonic() - begun > 60:
            raise TimeoutError(f"{table.name} was last observed {ago:.0f} s ago")
        time.sleep(0.02)
    return time.monotonic() - begun - ago


def _looked_ago(daemon: Served, table: Path) -> float:
    """Return the seconds since a table was observed; infinity if it was not observed yet."""
    ago = daemon.get(f"/v1/tables/{table.name}")["observed_seconds_ago"]
    return math.inf if ago is None else float(ago)


def _resident_mib(daemon: Served) -> float:
    resident: int = psutil.Process(daemon.process.pid).memory_info().rss
    return resident / 2**20
