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
from lakewarden.planners.ports import WriterEngine
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.events.listener import Listener
from lakewarden.service.http.api import build_api
from lakewarden.service.http.server import HttpServer
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.store.memory import MemoryStore
from lakewarden.service.wiring import compose

_PATIENCE = 60.0


class HudiDaemon(Listener):
    """Tells what it decides, how its runs end, and what became of each hook, to whoever waits for it."""

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
        """Return what Lakewarden tells a Spark writer of the table to set, the callback among it."""
        options = HUDI.writer_options(self._table, engine=WriterEngine.SPARK, hook_url=self._hook_url)
        return {option.key: option.value for option in options}

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        self._decisions.put(decision)

    def ended(self, run: Run) -> None:
        self._ended.put(run)

    def heard(self, sender: str, result: str) -> None:
        """Note a hook, as the API tells of it."""
        self._hooks.put((sender, result))

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        self._failures.put(blamed)

    def failure(self) -> Blamed:
        """Wait for the next failure of a writer that is found."""
        return self._failures.get(timeout=_PATIENCE)

    def succeeded(self, *services: Service) -> None:
        """Wait until a run of each of these services has succeeded."""
        missing = set(services)
        while missing:
            run = self.ending()
            if run.state is RunState.SUCCEEDED:
                missing.discard(run.service)

    def decision(self) -> Decision:
        """Wait for the next decision that is new."""
        return self._decisions.get(timeout=_PATIENCE)

    def hook(self) -> tuple[str, str]:
        """Wait for the next hook, and return its sender and what became of it."""
        return self._hooks.get(timeout=_PATIENCE)

    def ending(self) -> Run:
        """Wait for the next run that ends."""
        return self._ended.get(timeout=_PATIENCE)


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
    """Serve a table for as long as the bracket is open: compacted after so many commits, and by further `policies`;
    looked at once an hour, or closely until its lock is proved.
    """
    table = Table(
        id=TableId("sales.orders"),
        format="hudi",
        location=str(location),
        mode=Mode.ACT,
        poll=poll,
        options=HudiTableOptions.model_validate({"lock": dict(lock), "lock_proof": proof}),
        policies={
            Service.COMPACTION: Policy(trigger=NumCommits(at_least=compacts_after), options=CompactionOptions()),
            **(policies or {}),
        },
    )
    daemon = HudiDaemon(table)
    clock = SystemClock()
    room = compose(
        tables=[table],
        pools={table.spark: pool},
        store=MemoryStore(),
        clock=clock,
        listener=daemon,
        drain=timedelta(0),
    )
    api = build_api(room.status, clock=clock, hook_heard=daemon.heard)
    with ExitStack() as life:
        room.daemon.start()
        thread = threading.Thread(target=room.daemon.run)
        thread.start()
        life.callback(thread.join, _PATIENCE)
        life.callback(room.daemon.stop)
        server = life.enter_context(HttpServer(api, name="api", host="127.0.0.1", port=0))
        daemon.served_at(server.port)
        yield daemon
