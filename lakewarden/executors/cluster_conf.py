"""The Spark configuration of executors on other machines: what Lakewarden sets, and by when such executors have ended.

An executor counts the heartbeats that its driver does not answer. It ends itself after so many of them, whatever else
it can reach. That is its own deadline, and it counts failures and not time (docs/workers.md has what was measured).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakewarden.planners.settings import shown

INTERVAL = "spark.executor.heartbeatInterval"
FAILURES = "spark.executor.heartbeat.maxFailures"

_NETWORK = "spark.network.timeout"
_NETWORK_LEAST = timedelta(seconds=120)

DEFAULTS: Mapping[str, str] = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.executorIdleTimeout": "60s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "10m",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.timeout": "10m",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.rddBlocks.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
}
"""What a profile with executors elsewhere has by default: none at rest, and none that goes takes data with it."""

_SAFETY: Mapping[str, str] = {
    "spark.submit.deployMode": "client",
    "spark.speculation": "false",
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.killTimeout": "60s",
}
"""What no profile changes. One task is carried out once at a time, by an executor that answers its driver, and a task
that was cancelled ends, or its executor does."""

_INTERVAL_MS = 2000
_MOST_FAILURES = 4
_SHUTDOWN = timedelta(seconds=30)
"""How long the end of an executor takes at most. Its shutdown hook waits ten seconds for the thread that has ended it,
and Hadoop's `ShutdownHookManager` ends a hook after thirty (`hadoop.service.shutdown.timeout`)."""
_MARGIN = timedelta(seconds=5)

_TIME = re.compile(r"\s*([0-9]{1,12})\s*([a-z]{0,3})\s*")
_MS = {"": 1, "us": 0.001, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def counted_deadline(conf: Mapping[str, str]) -> timedelta:
    """Return how long after the last answer of its driver an executor ends itself at the latest.

    Each heartbeat waits for an interval, and the first one that fails may begin an interval after the last answer.
    Raises ValueError if a value is none that Spark reads.
    """
    written = conf.get(INTERVAL, f"{_INTERVAL_MS}ms")
    found = _TIME.fullmatch(written.lower())
    if found is None or found[2] not in _MS or float(found[1]) * _MS[found[2]] < 1:
        raise ValueError(f"{INTERVAL}: {shown(written)} is no time: write one like 2s")
    failures = conf.get(FAILURES, str(_MOST_FAILURES)).strip()
    if not failures.isascii() or not failures.isdigit() or not 1 <= int(failures[:9]) <= 1000:
        raise ValueError(f"{FAILURES}: {shown(failures)} is no number of heartbeats: write 1 to 1000")
    return timedelta(milliseconds=float(found[1]) * _MS[found[2]]) * (int(failures) + 1)


def executors_end_within(conf: Mapping[str, str]) -> timedelta:
    """Return how long after the last answer of their driver all executors have ended. Raises ValueError."""
    return counted_deadline(conf) + _SHUTDOWN + _MARGIN


def enforced(conf: Mapping[str, str]) -> Mapping[str, str]:
    """Return what executors elsewhere have in any case. Their driver gives none up before it has ended by itself: else
    another one would do its tasks at the same time.
    """
    network = max(_NETWORK_LEAST, executors_end_within(conf))
    return {
        INTERVAL: conf.get(INTERVAL, f"{_INTERVAL_MS}ms"),
        FAILURES: conf.get(FAILURES, str(_MOST_FAILURES)),
        **_SAFETY,
        _NETWORK: f"{math.ceil(network.total_seconds())}s",
    }


def check(conf: Mapping[str, str]) -> None:
    """Raise ValueError if a key is not for a profile with executors elsewhere."""
    counted_deadline(conf)
    for key in sorted(conf.keys() & {*_SAFETY, _NETWORK, "spark.storage.blockManagerHeartbeatTimeoutMs"}):
        raise ValueError(f"{key} is set by Lakewarden itself for executors on other machines: remove it")


def masters(master: str) -> Sequence[tuple[str, int]]:
    """Return the host and port of each standalone master in a URL such as `spark://one:7077,two:7077`. Raises
    ValueError.
    """
    found = [part.rpartition(":") for part in master.removeprefix("spark://").split(",")]
    if not all(host and port.isdigit() and 0 < int(port) < 65536 for host, _, port in found):
        raise ValueError(f"{shown(master)} is no standalone master: write one like spark://host:7077")
    return [(host.strip("[]"), int(port)) for host, _, port in found]


class MissingExecutors:
    """For how long the jobs of a session have waited without any executor. Spark itself waits for ever, and says
    nothing of it to the caller.
    """

    def __init__(self, limit: timedelta) -> None:
        self._limit = limit.total_seconds()
        self._since: float | None = None

    def look(self, *, missing: bool, now: float) -> bool:
        """Return whether there are jobs, and no executor has come, for too long. `now` is in monotonic seconds."""
        if not missing:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= self._limit
