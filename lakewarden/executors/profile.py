"""The settings of one pool of session workers."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

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
"""Keys that Lakewarden sets itself, each with the setting that says it."""

SessionKey = Literal[
    "spark.sql.adaptive.advisoryPartitionSizeInBytes",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.adaptive.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.shuffle.partitions",
]
"""Keys that a run's own session may have another value for: how much work is made of the rows, never what they are."""

_MASTER = re.compile(r"(local(\[(\*|[0-9]{1,4})(, ?[0-9]{1,4})?\])?|local-cluster\[.+\]|yarn|(spark|k8s|mesos)://\S+)")
_MEMORY = re.compile(r"[0-9]{1,7}[mg]")
_LEAST_MEMORY, _MOST_MEMORY = 256, 1024 * 1024


def _megabytes(memory: str) -> int:
    return int(memory[:-1]) * (1024 if memory.endswith("g") else 1)


class SparkProfile(Settings):
    """A `spark` profile: how many session workers there are and what Spark they run."""

    master: str = "local[*]"
    """Spark's master URL. `local[*]` runs everything inside the worker's own JVM."""

    workers: Annotated[int, Within(1, 64)] = 1
    """Session workers (processes, each with its own JVM and SparkSession)."""

    slots: Annotated[int, Within(1, 64)] = 3
    """Runs that one worker carries out at a time. With two or more in the pool, one is kept for cleans."""

    timezone: TimeZone = "UTC"
    """The one time zone of the worker's JVM, as in the IANA database. Instants are stamped in it, so it must be
    the zone of the tables' timelines; a table whose zone differs is Blocked."""

    memory: str = "1g"
    """The driver JVM's heap (`-Xmx`), in Spark's own notation."""

    formats: tuple[str, ...] = ("hudi",)
    """Formats whose bundle is put on the worker's class path."""

    conf: dict[str, str] = Field(default_factory=dict)
    """Further Spark configuration. What Lakewarden itself must set cannot be overridden."""

    heartbeat: Annotated[Duration, Within("100ms", "1m")] = Field(default="1s", validate_default=True)
    """How often a worker proves that its JVM answers."""

    hung_after: Annotated[Duration, Within("1s", "1d")] = Field(default="60s", validate_default=True)
    """Without such a proof for this long, worker and JVM are killed and their runs settled by the timeline."""

    start_within: Annotated[Duration, Within("10s", "1h")] = Field(default="120s", validate_default=True)
    """A worker whose session is not up after this long is killed and started again."""

    cancel_grace: Annotated[Duration, Within("1s", "1h")] = Field(default="30s", validate_default=True)
    """A cancelled run that has not ended after this long takes its JVM with it."""

    recycle_after: Annotated[int, Within(1, 1_000_000)] = 500
    """After this many runs a worker takes no new one, and is replaced once it is idle."""

    recycle_age: Annotated[Duration, Within("1s", "365d")] = Field(default="24h", validate_default=True)
    """The same after this long."""

    recycle_growth: Annotated[Size, Within("16MiB", "1TiB")] = Field(default="512MiB", validate_default=True)
    """The same when the resident memory of its JVM has grown by more than this since its twentieth run."""

    @field_validator("master")
    @classmethod
    def _known_to_spark(cls, value: str) -> str:
        if _MASTER.fullmatch(value) is None:
            known = "local[*], local[2], yarn, spark://host:7077 or k8s://host:6443"
            raise ValueError(f"{shown(value)} is no master that Spark knows: write one like {known}")
        return value

    @field_validator("memory")
    @classmethod
    def _holds_a_session(cls, value: str) -> str:
        if _MEMORY.fullmatch(value) is None or not _LEAST_MEMORY <= _megabytes(value) <= _MOST_MEMORY:
            raise ValueError(f"{shown(value)} is no heap that a session can work with: write 256m to 1024g")
        return value

    @model_validator(mode="after")
    def _is_heard_before_it_is_hung(self) -> SparkProfile:
        if self.heartbeat * 2 > self.hung_after:
            raise ValueError(
                f"hung_after: {format_duration(self.hung_after)} kills a worker before it is heard twice, at "
                f"heartbeat: {format_duration(self.heartbeat)}: write at least twice as much"
            )
        return self

    @field_validator("conf")
    @classmethod
    def _nothing_we_own(cls, value: dict[str, str]) -> dict[str, str]:
        for key, said in value.items():
            if not key.startswith("spark."):
                raise ValueError(
                    f"{shown(key)} is ignored by Spark: its keys begin with spark., Hadoop's with spark.hadoop."
                )
            if key in _OURS:
                instead = _OURS[key]
                raise ValueError(f"{key} is set by Lakewarden itself: {f'use {instead}' if instead else 'remove it'}")
            if key.endswith(".extraJavaOptions") and "-Xmx" in said:
                raise ValueError(f"{key} holds -Xmx, which Spark refuses: use memory instead")
        return value
