"""How long after a commit hook a run is started on a free slot, by a real daemon."""

from __future__ import annotations

import statistics
import time
from datetime import UTC, datetime

from bench.figure import Figure, figure
from bench.served import Served, served
from bench.small_tables import SmallTables, small_tables

_HOOKS = 24


def measure() -> list[Figure]:
    """Put one table after another in its place, as a writer's commit would make its work appear, and send the hook.

    Measured is from before the hook is sent until the session worker says that it has taken the run up. The cadence
    is so slow that only hooks drive the daemon, and every compaction ends before the next hook.
    """
    with small_tables() as tables:
        names = [f"hooked-{number:02}" for number in range(_HOOKS)]
        for name in names:
            tables.copy(name, into="waiting")
        (tables.folder / "tables").mkdir()
        with served(tables.folder / "daemon", tables.served_as(names, num_commits=3)) as daemon:
            daemon.until(lambda: all(daemon.get(f"/v1/tables/{name}")["trouble"] for name in names))
            sent = {name: _commit_and_send_the_hook(daemon, tables, name) for name in names}
            started = _started(daemon)
    milliseconds = [(started[name] - sent[name]).total_seconds() * 1000 for name in names[1:]]
    return [figure("hook_to_run", statistics.median(milliseconds), "ms, p50", judged="ours", goal=("<=", 200))]


def _commit_and_send_the_hook(daemon: Served, tables: SmallTables, name: str) -> datetime:
    path = tables.folder / "tables" / name
    (tables.folder / "waiting" / name).rename(path)
    sent = datetime.now(UTC)
    daemon.post("/v1/hooks/hudi", {"commitTime": "1", "tableName": name, "basePath": f"file://{path}"})
    daemon.until(lambda: daemon.run_of(name) is not None)
    time.sleep(0.1)
    return sent


def _started(daemon: Served) -> dict[str, datetime]:
    """Return when each table's first run was taken up by a worker, from the daemon's log."""
    started: dict[str, datetime] = {}
    for line in daemon.log_lines():
        if line["event"] == "run_started":
            started.setdefault(line["table"], datetime.fromisoformat(line["ts"]))
    return started
