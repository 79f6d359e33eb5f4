"""How three replicas on one PostgreSQL share 10,000 tables: how long tables wait for an owner after a start and after a
kill, and what the database is asked while nothing happens.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Collection
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

from bench.figure import Figure, figure
from bench.measuring.served import Served
from bench.polling.quiet_tables import watched, write_quiet_table
from tests.support.store.postgres import PostgresServer, running_postgres

_TABLES, _SETTLE_SECONDS, _MEASURE_SECONDS = 10_000, 30.0, 60.0
_BRIEF = (60, 1.0, 5.0)
_REPLICAS = 3
_SERVICES = 2
_LEASE_SECONDS, _BRIEF_LEASE_SECONDS = 30, 10
_TO_NOTICE_SECONDS = 20
"""From the end of a lease: the next sharing is up to a third of a lease later, and then each table is looked at."""

_GRACE = timedelta(seconds=10)


def measure(*, brief: bool = False) -> list[Figure]:
    """Start three daemons at once, let them rest, and kill one of them. The tables are in the mode `plan`.

    A table counts from the moment when a replica that lives owns it and has observed it. The database logs every
    statement, those that begin and end a transaction too, and these are counted.
    """
    tables, settle_seconds, measure_seconds = _BRIEF if brief else (_TABLES, _SETTLE_SECONDS, _MEASURE_SECONDS)
    lease_seconds = _BRIEF_LEASE_SECONDS if brief else _LEASE_SECONDS
    folder = Path(tempfile.mkdtemp(prefix="lakewarden-bench-"))
    try:
        for number in range(tables):
            write_quiet_table(folder / "tables" / f"t{number:05}")
        settings = watched(folder / "tables", mode="plan", poll="10s")
        with ExitStack() as open_things:
            server = open_things.enter_context(running_postgres())
            url = server.make_database()
            settings |= {
                "database": {"url": url},
                "daemon": {"data_dir": "data", "drain": "1s", "lease": f"{lease_seconds}s"},
            }
            begun = time.monotonic()
            replicas = [
                Served(folder / f"replica-{number}", settings, module="lakewarden.cli") for number in range(_REPLICAS)
            ]
            for replica in replicas:
                open_things.callback(replica.process.end, grace=_GRACE)
            _until_observed(replicas, tables)
            started_seconds = time.monotonic() - begun
            _until_decided(server, url, tables)
            time.sleep(settle_seconds)
            asked_per_second, connections = _at_rest(server, url, measure_seconds)
            killed, *left = replicas
            begun = time.monotonic()
            os.kill(killed.process.pid, signal.SIGKILL)
            _until_observed(left, tables)
            killed_seconds = time.monotonic() - begun
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    within = lease_seconds * 4 / 3 + _TO_NOTICE_SECONDS
    return [
        figure("shared_tables_start", started_seconds, "s", judged="ours", goal=("<=", 120)),
        figure("shared_tables_kill", killed_seconds, "s", judged="ours", goal=("<=", within)),
        figure("shared_tables_queries", asked_per_second, "statements/s", judged="ours", goal=("<=", 20)),
        figure("shared_tables_connections", connections, "connections", judged="ours", goal=("<=", 30)),
    ]


def _until_observed(replicas: Collection[Served], tables: int) -> None:
    """Wait until these replicas own all tables and have observed their own."""

    def observed() -> bool:
        try:
            return sum(_observed_by(replica) for replica in replicas) >= tables
        except OSError:
            return False  # it does not listen yet

    next(iter(replicas)).until(observed, within=600, every=0.5)


def _until_decided(server: PostgresServer, url: str, tables: int) -> None:
    """Wait until there is a decision about each service. The first ones are written one by one: no rest yet."""
    counted = "SELECT count(*) FROM decisions"
    deadline = time.monotonic() + 600
    while server.execute(url, counted)[0][0] < tables * _SERVICES:
        if time.monotonic() > deadline:
            raise TimeoutError("not every table was decided on")
        time.sleep(1)


def _observed_by(replica: Served) -> int:
    """Return how many tables it owns and has observed. What it has observed stays known while it owns the table."""
    owned = re.search(rb"^lakewarden_tables_owned (\S+)$", replica.scrape(), re.MULTILINE)
    return 0 if owned is None else min(int(float(owned[1])), int(replica.get("/v1/fleet/status")["observed"]))


def _at_rest(server: PostgresServer, url: str, seconds: float) -> tuple[float, int]:
    """Return how many statements a second reach the database, and how many connections it has."""
    server.log_statements()
    begun, size = time.monotonic(), server.log.stat().st_size
    time.sleep(seconds)
    spent = time.monotonic() - begun
    with server.log.open("rb") as lines:
        lines.seek(size)
        asked = len(server.statements_in(lines.read()))
    name = server.name_of(url)
    [(connections,)] = server.execute("postgres", f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{name}'")
    return asked / spent, int(connections)
