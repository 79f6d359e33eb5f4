"""The settings of one pool of session workers."""

from __future__ import annotations

from typing import Any

from pydantic import Field, field_validator

from lakewarden.planners.settings import Duration, Settings, Size, TimeZone


class SparkProfile(Settings):
    """A `spark` profile: how many session workers there are and what Spark they run."""

    master: str = "local[*]"
    """Spark's master URL. `local[*]` runs everything inside the worker's own JVM."""

    workers: int = Field(default=1, ge=1, le=64)
    """Session workers (processes, each with its own JVM and SparkSession)."""

    slots: int = Field(default=3, ge=1, le=64)
    """Runs that one worker carries out at a time. With two or more in the pool, one is kept for cleans."""

    timezone: TimeZone = "UTC"
    """The one time zone of the worker's JVM, as in the IANA database. Instants are stamped in it, so it must be
    the zone of the tables' timelines; a table whose zone differs is Blocked."""

    memory: str = Field(default="1g", pattern=r"^\d+[mg]$")
    """The driver JVM's heap (`-Xmx`), in Spark's own notation."""

    formats: tuple[str, ...] = ("hudi",)
    """Formats whose bundle is put on the worker's class path."""

    conf: dict[str, str] = Field(default_factory=dict)
    """Further Spark configuration. What Lakewarden itself must set cannot be overridden."""

    heartbeat: Duration = Field(default="1s", validate_default=True)
    """How often a worker proves that its JVM answers."""

    hung_after: Duration = Field(default="60s", validate_default=True)
    """Without such a proof for this long, worker and JVM are killed and their runs settled by the timeline."""

    start_within: Duration = Field(default="120s", validate_default=True)
    """A worker whose session is not up after this long is killed and started again."""

    cancel_grace: Duration = Field(default="30s", validate_default=True)
    """A cancelled run that has not ended after this long takes its JVM with it."""

    recycle_after: int = Field(default=500, ge=1)
    """After this many runs a worker takes no new one, and is replaced once it is idle."""

    recycle_age: Duration = Field(default="24h", validate_default=True)
    """The same after this long."""

    recycle_growth: Size = Field(default="512MiB", validate_default=True)
    """The same when the resident memory of its JVM has grown by more than this since its twentieth run."""

    @field_validator("conf")
    @classmethod
    def _nothing_we_own(cls, value: dict[str, Any]) -> dict[str, Any]:
        ours = ("spark.scheduler.mode", "spark.serializer", "spark.sql.session.timeZone", "spark.master")
        taken = sorted(key for key in value if key in ours)
        if taken:
            raise ValueError(f"{', '.join(taken)} is set by Lakewarden itself: remove it")
        return value
