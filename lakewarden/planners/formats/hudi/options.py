"""What the owner of a Hudi table tells us about it, in Hudi's own terms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from lakewarden.planners.settings import Settings


class ZookeeperLock(Settings):
    """`ZookeeperBasedLockProvider`: the lock of production tables."""

    provider: Literal["zookeeper"]

    url: str = Field(pattern=r"^[^:,\s]+:\d+(,[^:,\s]+:\d+)*$")
    """ZooKeeper's `host:port`, with commas between several (`hoodie.write.lock.zookeeper.url`). The port belongs
    into the url: Hudi ignores its own `.port` key."""

    base_path: str = Field(pattern=r"^/[^/].*[^/]$|^/[^/]$")
    """The node below which locks are made (`hoodie.write.lock.zookeeper.base_path`)."""

    lock_key: str = Field(min_length=1)
    """The name of this table's lock below it (`hoodie.write.lock.zookeeper.lock_key`)."""


class FilesystemLock(Settings):
    """`FileSystemBasedLockProvider`: for trials. It does not exclude: a client that times out deletes its holder's
    lock (docs/hudi.md), so a table under it carries a warning.
    """

    provider: Literal["filesystem"]

    path: str | None = None
    """Where the lock file is (`hoodie.write.lock.filesystem.path`); by default below the table's `.hoodie`."""


Lock = Annotated[ZookeeperLock | FilesystemLock, Field(discriminator="provider")]


class HudiTableOptions(Settings):
    """What Lakewarden must know of a Hudi table that the table itself does not say."""

    lock: Lock | None = None
    """The lock that the table's writers use: the same provider with the same keys. Without it, and unless
    `writers` is `none`, nothing runs on the table: services beside an unlocked writer lose acknowledged updates."""

    writers: Literal["live", "none"] = "live"
    """`none` declares that nobody writes to the table while Lakewarden serves it."""

    timeline_timezone: str | None = None
    """The zone in which the table's writers stamp instants, for tables where it cannot be proved from the files'
    modification times (a copied table). It must be the zone of the `spark` profile."""

    conf: dict[str, str] = Field(default_factory=dict)
    """Further `hoodie.*` options for our write client. Keys that guard the table are Lakewarden's own."""
