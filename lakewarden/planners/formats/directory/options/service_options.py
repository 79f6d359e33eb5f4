"""What the owner of a directory sets for each table service, in the terms of Flink's filesystem sink."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, field_validator

from lakewarden.planners.partitions.time_options import PartitionTimeOptions
from lakewarden.planners.settings import Duration, Within, shown
from lakewarden.planners.storage.locations import LONGEST_NAME_BYTES

_CUSTOM = "custom"


class CommitTrigger(StrEnum):
    """What a partition is committed by (`sink.partition-commit.trigger`)."""

    PROCESS_TIME = "process-time"
    PARTITION_TIME = "partition-time"


class CommitAct(StrEnum):
    """One act by which readers are told that a partition is committed."""

    SUCCESS_FILE = "success-file"
    METASTORE = "metastore"


class CommitPolicy(StrEnum):
    """How readers are told that a partition is committed (`sink.partition-commit.policy.kind`)."""

    SUCCESS_FILE = "success-file"
    METASTORE = "metastore"
    METASTORE_THEN_SUCCESS_FILE = "metastore,success-file"
    SUCCESS_FILE_THEN_METASTORE = "success-file,metastore"

    @property
    def acts(self) -> tuple[CommitAct, ...]:
        """The acts in their order."""
        return tuple(map(CommitAct, self.value.split(",")))


class PartitionCommitOptions(PartitionTimeOptions):
    """Partition commit: if nothing is written to a partition any more, readers are told so: by an empty file in it, by
    a Hive metastore that lists it, or by both.
    """

    trigger: CommitTrigger = CommitTrigger.PROCESS_TIME
    """`process-time` commits a partition `delay` after its newest change. `partition-time` commits it when a partition
    with a time later by more than `delay` has been seen, and `delay` after its newest change."""

    delay: Annotated[Duration, Within("0s", "3650d")] = Field(default="0s", validate_default=True)
    """The delay (`sink.partition-commit.delay`). For hourly partitions by partition time use `1h`."""

    policy: CommitPolicy = CommitPolicy.SUCCESS_FILE
    """`success-file` writes an empty file into the partition. `metastore` adds the partition to the table that
    `options.metastore` names, or alters it there after late data. With `metastore,success-file` the file follows the
    metastore. So a reader that waits for the file finds the partition listed."""

    success_file_name: str = "_SUCCESS"
    """The name of that file (`sink.partition-commit.success-file.name`). Its name begins with `_` or `.`, so that it is
    hidden from readers."""

    max_partitions: Annotated[int, Within(1, 1_000_000)] = 1000
    """The most partitions that one run commits, the oldest change first; what is left waits for the next run."""

    @field_validator("policy", mode="before")
    @classmethod
    def _is_there(cls, policy: Any) -> Any:
        if not isinstance(policy, str):
            return policy
        acts = [act.strip() for act in policy.split(",")]
        if _CUSTOM in acts:
            raise ValueError("the policy custom is refused: no command of a user runs in a session worker")
        return ",".join(acts)

    @field_validator("success_file_name")
    @classmethod
    def _is_hidden(cls, name: str) -> str:
        if name[:1] not in ("_", ".") or "/" in name or "\0" in name or not name.strip("."):
            raise ValueError(f"{shown(name)} is no name of a hidden file: write one like '_SUCCESS'")
        if len(name.encode()) > LONGEST_NAME_BYTES:
            raise ValueError(f"{shown(name)} has more than {LONGEST_NAME_BYTES} bytes")
        return name
