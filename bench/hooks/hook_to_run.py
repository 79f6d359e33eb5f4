"""How long a real daemon takes from a commit hook to the start of a run on a free slot."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

from bench.figure import Figure, figure
from bench.measuring.served import Served, served
from bench.runs.small_tables import SmallTables, small_tables

_HOOKS = 24
_BRIEF_HOOKS = 2


def measure(*, brief: bool = False) -> list[Figure]:
    """Put one table after another in its place, as a writer's commit would create its work, and send the hook.

    The time is from before the hook is sent until the session worker reports that it has taken the run. The cadence is
    so slow that only hooks cause observations. Every compaction ends before the next hook.
    """
    with small_tables() as tables:
        names = [f"hooked-{number:02}" for number in range(_BRIEF_HOOKS if brief else _HOOKS)]
        for name in names:
            tables.copy(name, into="waiting")
        (tables.folder / "tables").mkdir()
        with served(tables.folder / "daemon", tables.served_as(names, num_commits=3)) as daemon:
            daemon.until(lambda: all(daemon.get(f"/v1/tables/{name}")["failure"] for name in names))
            sent = {name: _commit_and_send_the_hook(daemon, tables, name) for name in names}
            started = _started(daemon)
    milliseconds = [(started[name] - sent[name]).total_seconds() * 1000 for name in names[1:]]
    return [figure("hook_to_run", statistics.median(milliseconds), "ms, p50", judged="ours", goal=("<=", 15))]


def _commit_and_send_the_hook(daemon: Served, tables: SmallTables, name: str) -> datetime:
    path = tables.folder / "tables" / name
    (tables.folder / "waiting" / name).rename(path)
    sent = datetime.now(UTC)
    daemon.post("/v1/hooks/hudi", {"commitTime": "1", "tableName": name, "basePath": f"file://{path}"})
    daemon.until(lambda: daemon.run_of(name) is not None)
    time.sleep(0.1)
    return sent


def _started(daemon: Served) -> dict[str, datetime]:
    """Return when a worker took each table's first run, from the daemon's log."""
    started: dict[str, datetime] = {}
    for line in daemon.log_lines():
        if line["event"] == "run_started":
            started.setdefault(line["table"], datetime.fromisoformat(line["ts"]))
    return started
