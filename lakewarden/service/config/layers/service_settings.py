"""The settings of the policy of one service of one table."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from lakewarden.executors.profile import SessionKey
from lakewarden.planners.model.table import Scheduling
from lakewarden.planners.settings import Duration, Settings, Within
from lakewarden.service.config.trigger import TriggerSetting
from lakewarden.service.config.window import WindowSettings


class ServiceSettings(Settings):
    """The policy of one service of one table."""

    trigger: TriggerSetting | None = None
    """When it is due: num_commits, num_commits_after_last_request, time_elapsed, log_files, log_bytes, small_files, or
    all_of / any_of of these. The default is 5 commits for a compaction, and 1 for a clean.
    """

    schedule: Scheduling = Scheduling.DAEMON
    """The author of the plans: `daemon` (Lakewarden plans), `writer` (the writers plan, and Lakewarden executes),
    `both`.
    """

    grace: Annotated[Duration, Within("1s", "30d")] = Field(default="10m", validate_default=True)
    """How long Lakewarden leaves a plan of another author alone before it takes the plan up."""

    window: WindowSettings | None = Field(default=None, examples=['{start: "22:00", end: "06:00"}'])
    """The hours in which it may be planned. The default is always."""

    asynchronous: bool = Field(default=True, alias="async")
    """Clean only. `true`: it runs beside a compaction, and the compaction waits for it before its commit. `false`: it
    runs after each compaction instead, and needs no trigger.
    """

    priority: Annotated[int, Within(-100, 100)] | None = None
    """The priority if slots are few. The default is that of its table. A clustering or a log compaction begins nothing
    while a compaction of its table waits, unless its priority is higher.
    """

    spark: str | None = None
    """The `spark` profile with the workers that carry it out. The default is that of the table. So a large clustering
    can have a JVM with more memory, or a cluster, and takes no slot from other services.
    """

    session: dict[SessionKey, str] = Field(default_factory=dict)
    """Spark configuration of the session of its runs. It is added to that of the profile. Only settings of a session
    are allowed, such as `spark.sql.shuffle.partitions`. Memory and cores belong to a JVM, and so to the profile.
    """

    options: dict[str, Any] = Field(default_factory=dict)
    """The options of the service, in the terms of the format."""
