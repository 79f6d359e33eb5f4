"""A whole daemon without Spark behind real servers, over a fake table, with its control thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from lakewarden.demo.daemon import free_port
from lakewarden.executors.contract import Permit, Wait
from lakewarden.executors.pool.listening import RunLogs
from lakewarden.planners.hooks import At
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.decision import Decision
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import ActWhen, DeletionBudget, Mode, Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits
from lakewarden.service.events import Listener, Listeners
from lakewarden.service.http.access.callers import Identify, told_of
from lakewarden.service.http.api import build_api
from lakewarden.service.http.connections import PortLimits
from lakewarden.service.http.management import build_management
from lakewarden.service.http.server import HttpServer
from lakewarden.service.model.run import Run
from lakewarden.service.reporting.metrics import Metrics
from lakewarden.service.reporting.tracing import RunTraces
from lakewarden.service.rules.writer_failures import Blamed
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.store.sql.store import Store
from lakewarden.service.wiring.daemon import compose
from lakewarden.service.wiring.serving import heard_by
from tests.support.daemon.daemon_harness import HoldingPool
from tests.support.doubles.fake import FAKE, FakeTable
from tests.support.store.memory_store import MemoryStore
from tests.support.waiting import HANGS

_NEVER = NumCommits(at_least=1000)


class Moments(Listener):
    """Lets a test wait for events of the daemon: each kind of event in a queue of its own."""

    def __init__(self) -> None:
        self._decided: Queue[Decision] = Queue()
        self._waits: Queue[str] = Queue()
        self._ended: Queue[Run] = Queue()
        self._failed: Queue[Blamed] = Queue()

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        self._decided.put(decision)

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        if isinstance(permit, Wait):
            self._waits.put(permit.reason)

    def ended(self, run: Run) -> None:
        self._ended.put(run)

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        self._failed.put(blamed)

    def decision(self) -> Decision:
        """Wait for the next decision that is new."""
        return self._decided.get(timeout=HANGS)

    def wait(self) -> str:
        """Wait until a run has to wait, and return for what."""
        return self._waits.get(timeout=HANGS)

    def ending(self) -> Run:
        """Wait for the next run that ends."""
        return self._ended.get(timeout=HANGS)

    def failure(self) -> Blamed:
        """Wait for the next failure of a writer that is found."""
        return self._failed.get(timeout=HANGS)


class ServedDaemon:
    """The table `trips`, whose services never become due by themselves, under a daemon that may act on it."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Clock | None = None,
        store: Store | None = None,
        slots: int = 2,
        budget: DeletionBudget | None = None,
        beside: ServedDaemon | None = None,
        limits: PortLimits | None = None,
        name: str = "trips",
        identify: Identify | None = None,
        run_logs: RunLogs | None = None,
        traces: RunTraces | None = None,
        act_when: ActWhen = ActWhen.AT_ONCE,
    ) -> None:
        """`beside`: another daemon that owns the same table, on the same store. `identify` knows the callers."""
        self._traces = traces
        self._identify = identify
        self.run_logs = run_logs
        clock = clock or SystemClock()
        self.lake: FakeTable = FakeTable.create(folder / "trips") if beside is None else beside.lake
        self.store: Store = store or (MemoryStore() if beside is None else beside.store)
        self.port = free_port()
        self.moments = Moments()
        self.pool = HoldingPool(slots=slots)
        self.metrics = Metrics([Service.COMPACTION, Service.CLEAN])
        table = Table(
            id=TableId(name),
            format=FAKE.name,
            location=str(self.lake.folder),
            mode=Mode.ACT,
            act_when=act_when,
            poll=timedelta(hours=1),
            options=FAKE.table_options(),
            policies={
                service: Policy(trigger=_NEVER, options=FAKE.services[service]())
                for service in (Service.COMPACTION, Service.CLEAN)
            },
            budget=budget or DeletionBudget(),
        )
        self.composed = compose(
            tables=[table],
            resources=Resources(
                formats={FAKE.name: FAKE},
                pools={"default": self.pool},
                store=self.store,
                clock=clock,
                run_logs=run_logs,
                listener=Listeners([self.metrics, *([traces] if traces else []), self.moments]),
            ),
            drain=timedelta(0),
            alone=False,
            url=f"http://127.0.0.1:{self.port}",
        )
        self.metrics.watch(self.composed.status, clock=clock)
        self._life = ExitStack()
        self._limits = limits
        self._clock = clock

    @cached_property
    def api(self) -> httpx.Client:
        """Serve the API, and return a client of it."""
        app = build_api(
            self.composed.status,
            clock=self._clock,
            hook_heard=heard_by(self.metrics, self._traces),
            formats={FAKE.name: FAKE},
            on_refusal=told_of("api", self.metrics.refused),
            identify=self._identify,
        )
        return self._served("api", app, port=self.port)

    @cached_property
    def management(self) -> httpx.Client:
        """Serve probes and metrics, and return a client of them."""
        return self._served(
            "management",
            build_management(
                self.composed.status,
                self.metrics.registry,
                identify=self._identify,
                on_refusal=told_of("management", self.metrics.refused),
            ),
        )

    def _served(self, name: str, app: FastAPI, *, port: int = 0) -> httpx.Client:
        server = self._life.enter_context(self._server(name, app, port))
        url = f"http://127.0.0.1:{server.port}"
        return self._life.enter_context(httpx.Client(base_url=url, timeout=HANGS, verify=False))

    def _server(self, name: str, app: FastAPI, port: int) -> HttpServer:
        return HttpServer(
            app,
            name=name,
            host="127.0.0.1",
            port=port,
            limits=self._limits,
            refused=self.metrics.refused,
        )

    def start(self) -> None:
        """Start the control thread."""
        self.composed.daemon.start()
        thread = threading.Thread(target=self.composed.daemon.run)
        thread.start()
        self._life.callback(thread.join, HANGS)
        self._life.callback(self.composed.daemon.stop)

    def stop(self) -> None:
        """End the control thread and the servers."""
        self._life.close()

    def look(self, *, news: int = 2) -> None:
        """Have the table looked at, as a writer's hook has it, and wait for so many new decisions."""
        assert self.api is not None  # it is served from now on
        self.composed.status.mark_dirty(At(location=str(self.lake.folder)))
        for _ in range(news):
            self.moments.decision()

    def metric(self, name: str, **labels: str) -> float | None:
        """Return what a scrape says of one series."""
        return self.metrics.registry.get_sample_value(name, labels)


@pytest.fixture
def make_served(tmp_path: Path) -> Iterator[Callable[..., ServedDaemon]]:
    """Return what builds a daemon whose control thread does not run yet."""
    with ExitStack() as life:

        def build(**parts: Any) -> ServedDaemon:
            served = ServedDaemon(tmp_path, **parts)
            life.callback(served.stop)
            return served

        yield build


@pytest.fixture
def start_served(make_served: Callable[..., ServedDaemon]) -> Callable[..., ServedDaemon]:
    """Return what builds a running daemon that has looked at a table with three commits."""

    def start(**parts: Any) -> ServedDaemon:
        served = make_served(**parts)
        for _ in range(3):
            served.lake.write()
        served.start()
        served.look()
        return served

    return start


@pytest.fixture
def served(start_served: Callable[..., ServedDaemon]) -> ServedDaemon:
    """Return such a daemon."""
    return start_served()


@contextmanager
def serving(app: FastAPI) -> Iterator[httpx.Client]:
    """Serve an application, and yield a client of it."""
    with (
        HttpServer(app, name="api", host="127.0.0.1", port=0) as server,
        httpx.Client(base_url=f"http://127.0.0.1:{server.port}", timeout=HANGS) as client,
    ):
        yield client
