"""The measurements of a daemon among hostile tables and clients. Threads measure all the time, and nothing in the
daemon can block them.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

import psutil

from faults.hostile.served import NoAnswerError, Served

_POLL_AGE = re.compile(r'^lakewarden_table_poll_age_seconds\{table="([^"]+)"\} (\S+)$', re.MULTILINE)
_EVERY_SECONDS = 1.0
LIVEZ_WITHIN_SECONDS = 5.0
"""How long the chart's probes wait for an answer (`timeoutSeconds`)."""

_KEPT = 5


@dataclass(kw_only=True, slots=True)
class Measured:
    """The measurements so far. An age is the longest time without an observation of a table, after every table was
    observed once. `ended` tells when it ended, in seconds of the measuring.
    """

    probes: int = 0
    livez_failures: list[str] = field(default_factory=list)
    livez_slowest: float = 0.0
    scrapes: int = 0
    metrics_failures: list[str] = field(default_factory=list)
    ages: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    memory: int = 0
    memory_samples: int = 0
    log: int = 0
    harness_errors: list[str] = field(default_factory=list)


class Gauges:
    """Measures one daemon and its good tables for as long as the context is open."""

    def __init__(self, served: Served, tables: Collection[str]) -> None:
        self.measured = Measured()
        self._served = served
        self._tables = frozenset(tables)
        self._looked_at: dict[str, float] = {}
        self._began = time.monotonic()
        self._over = threading.Event()
        looks = (self._probe, self._scrape, self._weigh)
        self._threads = [threading.Thread(target=self._measure, args=(look,), daemon=True) for look in looks]

    def __enter__(self) -> Gauges:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def all_looked_at(self) -> bool:
        """Whether every good table was observed once."""
        return self._tables <= self._looked_at.keys()

    def _measure(self, look: Callable[[], None]) -> None:
        while not self._over.wait(_EVERY_SECONDS):
            try:
                look()
            except Exception as error:  # noqa: BLE001 - the edge of the loop: a gauge that fails must not fall silent
                self.measured.harness_errors.append(f"{look.__name__}: {type(error).__name__} {error}"[:200])

    def _probe(self) -> None:
        begun = time.monotonic()
        self.measured.probes += 1
        try:
            self._served.alive(within=LIVEZ_WITHIN_SECONDS)
        except NoAnswerError as silent:
            if not self._over.is_set():
                self.measured.livez_failures.append(str(silent))
        self.measured.livez_slowest = max(self.measured.livez_slowest, time.monotonic() - begun)

    def _scrape(self) -> None:
        self.measured.scrapes += 1
        try:
            found = dict(_POLL_AGE.findall(self._served.metrics(within=30)))
        except NoAnswerError as silent:
            if not self._over.is_set():
                self.measured.metrics_failures.append(str(silent))
            found = {}
        now = time.monotonic()
        for table in self._tables & found.keys():
            self._looked_at[table] = max(self._looked_at.get(table, 0.0), now - float(found[table]))
        for table, looked_at in self._looked_at.items() if self.all_looked_at() else ():
            if now - looked_at > self.measured.ages.get(table, 0.0):
                self.measured.ages[table] = now - looked_at
                self.measured.ended[table] = now - self._began

    def _weigh(self) -> None:
        self.measured.memory = max(self.measured.memory, memory_without_jvms(self._served.process.pid))
        self.measured.memory_samples += 1
        self.measured.log = max(self.measured.log, self._served.process.log.stat().st_size)


def memory_without_jvms(pid: int) -> int:
    """Return the bytes that a process and its descendants hold, each shared page once. JVMs are left out."""
    total = 0
    for process in _family(pid):
        with contextlib.suppress(psutil.Error):
            if process.name() != "java":
                total += process.memory_full_info().pss
    return total


def _family(pid: int) -> Iterator[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        daemon = psutil.Process(pid)
        yield daemon
        yield from daemon.children(recursive=True)


def breaches(measured: Measured, *, cadence: float, memory: int = 2**30, log: int = 10 * 2**20) -> list[str]:
    """Return the limits that were exceeded. `cadence` is the poll of a good table in seconds. Pure."""
    found = []
    if measured.livez_failures:
        found.append(
            f"/livez failed {len(measured.livez_failures)} of {measured.probes} times: {_some(measured.livez_failures)}"
        )
    if measured.metrics_failures:
        failed = measured.metrics_failures
        found.append(f"/metrics failed {len(failed)} of {measured.scrapes} times: {_some(failed)}")
    late = {table: age for table, age in measured.ages.items() if age > 2 * cadence}
    if late:
        told = ", ".join(
            f"{table} {age:.1f} s (until second {measured.ended.get(table, 0):.0f})"
            for table, age in sorted(late.items())
        )
        found.append(f"not observed within twice their cadence of {cadence:g} s: {told}")
    if measured.memory > memory:
        found.append(f"the daemon and what it started, without JVMs, held {measured.memory / 2**20:.0f} MiB")
    if measured.log > log:
        found.append(f"its log grew to {measured.log / 2**20:.1f} MiB")
    if not (measured.probes and measured.memory_samples and measured.scrapes):
        found.append("nothing was measured")
    return [*found, *(f"a gauge failed: {error}" for error in measured.harness_errors[:_KEPT])]


def _some(told: list[str]) -> str:
    return "; ".join(list(dict.fromkeys(told))[:_KEPT])
