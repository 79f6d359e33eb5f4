"""The settings of one pool of session workers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from lakewarden.executors.registry import ON_SPARK
from lakewarden.planners.settings import Duration, Settings, Size, TimeZone, Within, format_duration, shown

_OURS = {
    "spark.master": "master",
    "spark.app.name": "",
    "spark.driver.memory": "memory",
    "spark.sql.session.timeZone": "timezone",
    "spark.scheduler.mode": "",
    "spark.serializer": "",
    "spark.kryo.registrator": "",
}
"""Keys that Lakewarden sets itself, each with the setting for it."""

SessionKey = Literal[
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.shuffle.partitions",
]
"""Keys that the session of one run may set. They change how the work is divided, and never the rows."""

_MASTER = re.compile(r"(local(\[(\*|[0-9]{1,4})(, ?[0-9]{1,4})?\])?|local-cluster\[.+\]|yarn|(spark|k8s|mesos)://\S+)")
_MASTER_UI = re.compile(r"https?://[A-Za-z0-9._\[\]:-]{1,300}(/[A-Za-z0-9._/-]{0,200})?")
_MEMORY = re.compile(r"[0-9]{1,7}[mg]")
_LEAST_MEMORY, _MOST_MEMORY = 256, 1024 * 1024


def _megabytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


class SparkProfile(Settings):
    """A `spark` profile: the number of session workers, and their Spark."""

    master: str = "local[*]"
    """Spark's master URL. `local[*]` runs everything in the JVM of the worker, and `spark://host:7077` on a standalone
    cluster. No table is acted on by another one yet: nothing proves that executors that outlive their driver have
    ended.
    """

    master_ui: str | None = None
    """Where a standalone master (`spark://`) tells of its applications, as `http://master:8080`. There Lakewarden
    learns that the executors of a dead worker have ended. Without it their own deadline is waited for.
    """

    workers: Annotated[int, Within(1, 64)] = 1
    """Session workers (processes, each with its own JVM and SparkSession)."""

    at_rest: Annotated[int, Within(0, 64)] | None = None
    """Workers that are kept when there is nothing to do. The others are started when runs wait for a slot, which takes
    as long as a JVM needs to start. 0: none occupies memory until it is needed. The default is all `workers`.
    """

    idle_after: Annotated[Duration, Within("1s", "365d")] = Field(default="10m", validate_default=True)
    """A worker beyond `at_rest` is stopped when it has had no run for this long."""

    slots: Annotated[int, Within(1, 64)] = 3
    """Runs that one worker carries out at a time. If the pool has two or more slots, one is kept for cleans."""

    timezone: TimeZone = "UTC"
    """The one time zone of the worker's JVM, as in the IANA database. The JVM stamps instants in it, so it must be the
    zone of the tables' timelines. A table with another zone is blocked."""

    memory: str = "1g"
    """The driver JVM's heap (`-Xmx`), in Spark's own notation."""

    formats: tuple[str, ...] = tuple(islice(ON_SPARK, 1))
    """The formats with a bundle on the worker's class path. The default are those of the tables of the profile with
    services.
    """

    conf: dict[str, str] = Field(default_factory=dict)
    """Further Spark configuration. The keys that Lakewarden itself sets cannot be overridden."""

    heartbeat: Annotated[Duration, Within("100ms", "1m")] = Field(default="1s", validate_default=True)
    """How often a worker proves that its JVM answers."""

    hung_after: Annotated[Duration, Within("1s", "1d")] = Field(default="60s", validate_default=True)
    """If there is no such proof for this long, worker and JVM are killed. The timeline tells how their runs ended."""

    start_within: Annotated[Duration, Within("10s", "1h")] = Field(default="120s", validate_default=True)
    """If a worker's session is not up after this time, it is killed and started again."""

    executors_within: Annotated[Duration, Within("10s", "1d")] = Field(default="5m", validate_default=True)
    """If the jobs of a worker on a cluster have no executor for this long, its runs are cancelled: the master or all
    its workers are gone, or the cluster is full."""

    breaker_after: Annotated[int, Within(1, 1000)] = 3
    """After so many workers in a row that got no executors, or lost their application, no run starts for a minute. Then
    one run is tried, and the pause doubles, up to half an hour, until a run has succeeded.
    """

    cancel_grace: Annotated[Duration, Within("1s", "1h")] = Field(default="30s", validate_default=True)
    """If a cancelled run has not ended after this time, its JVM is killed."""

    recycle_after: Annotated[int, Within(1, 1_000_000)] = 500
    """After this many runs a worker takes no new run. It is replaced when it is idle."""

    recycle_age: Annotated[Duration, Within("1s", "365d")] = Field(default="24h", validate_default=True)
    """The same after this time."""

    recycle_growth: Annotated[Size, Within("16MiB", "1TiB")] = Field(default="512MiB", validate_default=True)
    """The same if the resident memory of its JVM has grown by more than this since its twentieth run."""

    @property
    def kept_at_rest(self) -> int:
        """How many workers are kept when there is nothing to do."""
        return self.workers if self.at_rest is None else self.at_rest

    @property
    def has_remote_executors(self) -> bool:
        """Whether a dead worker proves nothing about the executors of its runs."""
        return not (self.master == "local" or self.master.startswith("local["))

    @property
    def is_standalone(self) -> bool:
        """Whether its executors are those of a standalone cluster. Their end can be proved."""
        return self.master.startswith("spark://")

    @field_validator("master")
    @classmethod
    def _known_to_spark(cls, value: str) -> str:
        if _MASTER.fullmatch(value) is None:
            examples = "local[*], local[2], yarn, spark://host:7077 or k8s://host:6443"
            raise ValueError(f"{shown(value)} is not a master that Spark knows: write one like {examples}")
        return value

    @field_validator("master_ui")
    @classmethod
    def _answers_http(cls, value: str | None) -> str | None:
        if value is not None and _MASTER_UI.fullmatch(value) is None:
            raise ValueError(f"{shown(value)} is not an address of a master's page: write one like http://master:8080")
        return value

    @field_validator("memory")
    @classmethod
    def _holds_a_session(cls, value: str) -> str:
        if _MEMORY.fullmatch(value) is None or not _LEAST_MEMORY <= _megabytes(value) <= _MOST_MEMORY:
            raise ValueError(f"{shown(value)} is not a heap that a session can work with: write 256m to 1024g")
        return value

    @model_validator(mode="after")
    def _ends_its_executors(self) -> SparkProfile:
        if self.has_remote_executors:
            check(self.conf)
        if self.is_standalone:
            masters(self.master)
        if self.master_ui is not None and not self.is_standalone:
            raise ValueError(f"master_ui is for a standalone master, and master is {shown(self.master)}: remove one")
        return self

    @model_validator(mode="after")
    def _rests_with_workers_that_it_has(self) -> SparkProfile:
        if self.kept_at_rest > self.workers:
            raise ValueError(f"at_rest: {self.at_rest} is more than workers: {self.workers}: lower it or raise workers")
        return self

    @model_validator(mode="after")
    def _is_heard_before_it_is_hung(self) -> SparkProfile:
        if self.heartbeat * 2 > self.hung_after:
            raise ValueError(
                f"hung_after: {format_duration(self.hung_after)} kills a worker before it can report twice, at "
                f"heartbeat: {format_duration(self.heartbeat)}: write at least twice as much"
            )
        return self

    @field_validator("conf")
    @classmethod
    def _nothing_we_own(cls, value: dict[str, str]) -> dict[str, str]:
        for key, setting in value.items():
            if not key.startswith("spark."):
                raise ValueError(
                    f"{shown(key)} is ignored by Spark: its keys begin with spark., Hadoop's with spark.hadoop."
                )
            if key in _OURS:
                instead = _OURS[key]
                raise ValueError(f"{key} is set by Lakewarden itself: {f'use {instead}' if instead else 'remove it'}")
            if key.endswith(".extraJavaOptions") and "-Xmx" in setting:
                raise ValueError(f"{key} holds -Xmx, which Spark refuses: use memory instead")
        return value


# The Spark configuration of executors on other machines: what Lakewarden sets, and by when such executors have ended.
#
# An executor counts the heartbeats that its driver does not answer. It ends itself after so many of them, whatever else
# it can reach. That is its own deadline, and it counts failures and not time (docs/workers.md has what was measured).

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
    match = _TIME.fullmatch(written.lower())
    if match is None or match[2] not in _MS or float(match[1]) * _MS[match[2]] < 1:
        raise ValueError(f"{INTERVAL}: {shown(written)} is not a time: write one like 2s")
    failures = conf.get(FAILURES, str(_MOST_FAILURES)).strip()
    if not failures.isascii() or not failures.isdigit() or not 1 <= int(failures[:9]) <= 1000:
        raise ValueError(f"{FAILURES}: {shown(failures)} is not a number of heartbeats: write 1 to 1000")
    return timedelta(milliseconds=float(match[1]) * _MS[match[2]]) * (int(failures) + 1)


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
    parts = [part.rpartition(":") for part in master.removeprefix("spark://").split(",")]
    if not all(host and port.isdigit() and 0 < int(port) < 65536 for host, _, port in parts):
        raise ValueError(f"{shown(master)} is not a standalone master: write one like spark://host:7077")
    return [(host.strip("[]"), int(port)) for host, _, port in parts]
