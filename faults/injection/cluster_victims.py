"""The processes of a cluster as victims: its executors, its workers and its master."""

from __future__ import annotations

import contextlib
import random
import signal
import time
from collections.abc import Sequence

import psutil

from faults.injection.schedule import Victim
from tests.support.doubles.standalone_cluster import StandaloneCluster

_LEFT_SECONDS = 60.0


class ClusterVictims:
    """Kills and freezes processes of a cluster, and repairs it."""

    def __init__(self, cluster: StandaloneCluster, *, seed: int) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._killed_worker: int | None = None

    def inject(self, victim: Victim) -> Sequence[psutil.Process]:
        """Kill or freeze the victim, as far as it is of the cluster. Return the processes to be continued later."""
        executors = self._cluster.executors()
        if victim in (Victim.FROZEN_EXECUTORS, Victim.JVM_BESIDE_FROZEN_EXECUTORS):
            _send(signal.SIGSTOP, executors)
            return executors
        if victim is Victim.EXECUTORS:
            _send(signal.SIGKILL, executors)
        elif victim is Victim.SPARK_WORKER:
            self._killed_worker = self._rng.randrange(len(self._cluster.workers))
            self._cluster.workers[self._killed_worker].kill()
        elif victim is Victim.MASTER:
            self._cluster.master.kill()
            self._cluster.master.wait()
        return ()

    def repair(self) -> None:
        """Start again what was killed."""
        if self._killed_worker is not None:
            self._cluster.replace_worker(self._killed_worker)
            self._killed_worker = None
        if self._cluster.master.poll() is not None:
            self._cluster.start_master()

    def left(self) -> Sequence[psutil.Process]:
        """Return the executors that still run a minute after their drivers have ended."""
        deadline = time.monotonic() + _LEFT_SECONDS
        while (left := self._cluster.executors()) and time.monotonic() < deadline:
            time.sleep(0.5)
        return left


def _send(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
