"""A daemon in the test's own process, over one Hudi table and behind a real API server."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from queue import Queue
from typing import Any

from lakewarden.executors.contract import Pool
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.options.service_options import CompactionOptions
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.clock import SystemClock
from lakewarden.planners.model.decision import Decision
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.ports import SPARK
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.events import Listener
from lakewarden.service.http.api import build_api
from lakewarden.service.http.server import HttpServer
from lakewarden.service.model.received_hook import HeardHook
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.wiring.daemon import compose
from tests.support.store.memory_store import MemoryStore
from tests.support.waiting import HANGS


class HudiDaemon(Listener):
    """Reports its decisions, the ends of its runs, and the results of its hooks to the test that waits for them."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._failures: Queue[Blamed] = Queue()
        self.url = self._hook_url = ""
        self._decisions: Queue[Decision] = Queue()
        self._ended: Queue[Run] = Queue()
        self._hooks: Queue[tuple[str, str]] = Queue()

    def served_at(self, port: int) -> None:
        """Note the port of the API."""
        self.url = f"http://127.0.0.1:{port}"
        self._hook_url = f"{self.url}/v1/hooks/hudi"

    def writer_options(self) -> dict[str, str]:
        """Return the options that Lakewarden tells a Spark writer of the table to set, with the callback."""
        options = HUDI.writer_options(self._table, engine=SPARK, hook_url=self._hook_url)
        return {option.key: option.value for option in options}

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        self._decisions.put(decision)

    def ended(self, run: Run) -> None:
        self._ended.put(run)

    def heard(self, heard: HeardHook) -> None:
        """Record a hook as the API reports it."""
        self._hooks.put((heard.sender, heard.result))

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        self._failures.put(blamed)

    def failure(self) -> Blamed:
        """Wait for the next failure of a writer that is found."""
        return self._failures.get(timeout=HANGS)

    def succeeded(self, *services: Service) -> None:
        """Wait until a run of each of these services has succeeded."""
        missing = set(services)
        while missing:
            run = self.ending()
            if run.state is RunState.SUCCEEDED:
                missing.discard(run.service)

    def decision(self) -> Decision:
        """Wait for the next new decision."""
        return self._decisions.get(timeout=HANGS)

    def hook(self) -> tuple[str, str]:
        """Wait for the next hook, and return its sender and its result."""
        return self._hooks.get(timeout=HANGS)

    def ending(self) -> Run:
        """Wait for the next run that ends."""
        return self._ended.get(timeout=HANGS)


@contextmanager
def hudi_daemon(
    location: Path,
    *,
    lock: Mapping[str, Any],
    pool: Pool,
    compacts_after: int,
    proof: str = "trusted",
    policies: Mapping[Service, Policy] | None = None,
    poll: timedelta = timedelta(hours=1),
) -> Iterator[HudiDaemon]:
    """Serve a table while the bracket is open. It is compacted after so many commits, and served by further `policies`.
    It is polled once an hour, or often until its lock is proved.
    """
    table = Table(
        id=TableId("sales.orders"),
        format="hudi",
        location=str(location),
        mode=Mode.ACT,
        poll=poll,
        options=HudiTableOptions.model_validate({"lock": dict(lock), "lock_proof": proof, "dead_after": "3m"}),
        policies={
            Service.COMPACTION: Policy(trigger=NumCommits(at_least=compacts_after), options=CompactionOptions()),
            **(policies or {}),
        },
    )
    daemon = HudiDaemon(table)
    clock = SystemClock()
    composed = compose(
        tables=[table],
        resources=Resources(
            pools={table.spark: pool},
            store=MemoryStore(),
            clock=clock,
            listener=daemon,
        ),
        drain=timedelta(0),
    )
    api = build_api(composed.status, clock=clock, hook_heard=daemon.heard)
    with ExitStack() as life:
        composed.daemon.start()
        thread = threading.Thread(target=composed.daemon.run)
        thread.start()
        life.callback(thread.join, HANGS)
        life.callback(composed.daemon.stop)
        server = life.enter_context(HttpServer(api, name="api", host="127.0.0.1", port=0))
        daemon.served_at(server.port)
        yield daemon
