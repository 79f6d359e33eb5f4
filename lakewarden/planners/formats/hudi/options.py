"""What the owner of a Hudi table tells us about it, in Hudi's own terms."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

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


class CompactionOptions(Settings):
    """Compaction of merge-on-read file groups."""

    target_io_mb: int = Field(default=512_000, ge=1)
    """The most that one plan reads and writes, in MB (`hoodie.compaction.target.io`)."""


class CleanPolicy(StrEnum):
    """`hoodie.clean.policy`."""

    KEEP_LATEST_COMMITS = "KEEP_LATEST_COMMITS"
    KEEP_LATEST_FILE_VERSIONS = "KEEP_LATEST_FILE_VERSIONS"
    KEEP_LATEST_BY_HOURS = "KEEP_LATEST_BY_HOURS"


class CleanOptions(Settings):
    """Which old file versions a clean removes. Readers of older versions fail once they are gone."""

    policy: CleanPolicy = CleanPolicy.KEEP_LATEST_COMMITS
    """What is counted (`hoodie.clean.policy`)."""

    commits_retained: int | None = Field(default=None, ge=1)
    """With KEEP_LATEST_COMMITS: commits that stay readable (`hoodie.clean.commits.retained`), 10 by default."""

    file_versions_retained: int | None = Field(default=None, ge=1)
    """With KEEP_LATEST_FILE_VERSIONS: versions of a file group that stay
    (`hoodie.clean.fileversions.retained`), 3 by default."""

    hours_retained: int | None = Field(default=None, ge=1)
    """With KEEP_LATEST_BY_HOURS: hours of commits that stay (`hoodie.clean.hours.retained`), 24 by default."""

    @model_validator(mode="after")
    def _only_what_the_policy_counts(self) -> CleanOptions:
        counted = {
            CleanPolicy.KEEP_LATEST_COMMITS: "commits_retained",
            CleanPolicy.KEEP_LATEST_FILE_VERSIONS: "file_versions_retained",
            CleanPolicy.KEEP_LATEST_BY_HOURS: "hours_retained",
        }
        for policy, key in counted.items():
            value = getattr(self, key)
            if value is not None and policy is not self.policy:
                raise ValueError(f"{key}: {value} says nothing under policy: {self.policy}; it belongs to {policy}")
        return self
