"""What the owner of a directory tells us about it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from lakewarden.planners.formats.directory.options.metastore_options import MetastoreOptions
from lakewarden.planners.settings import Duration, Settings, Within, shown


class DirectoryTableOptions(Settings):
    """What Lakewarden must know of a directory that a listing does not say."""

    quiet_intervals: Annotated[int, Within(0, 1000)] = 3
    """A partition is active for so many of the writer's usual intervals after its newest change, at least for
    `quiet_for`. The interval is learned from the times of the files. Zero leaves only `quiet_for`."""

    quiet_for: Annotated[Duration, Within("0s", "30d")] = Field(default="1m", validate_default=True)
    """The least time for which a partition is active after its newest change. On an object store, where parts in
    progress are not seen, set it to more than the checkpoint interval and the rollover interval of the writer."""

    list_all_every: Annotated[Duration, Within("10s", "7d")] = Field(default="10m", validate_default=True)
    """So often every folder is looked at. Between two such looks only the folders that changed last are looked at, and
    the folders above them."""

    abandoned_after: Annotated[Duration, Within("1h", "3650d")] | None = None
    """A part in progress that has not changed for so long is abandoned: it no longer keeps its partition active. Set it
    to more than the longest time after which a stopped job is restored. By default no part is abandoned."""

    restore_horizon: Annotated[Duration, Within("0s", "3650d")] | None = None
    """The longest time after which a stopped job is restored from a checkpoint or a savepoint. Compaction and
    orphans need it: they touch no file that is younger, because a restored job looks for the files of its checkpoint.
    `0s`: no job is ever restored."""

    ignored: tuple[str, ...] = Field(default=(), max_length=100)
    """Names of files and folders that are neither data nor in progress, as in `_audit` or `*.md5`: `*` and `?` stand
    for what is in a name."""

    metastore: MetastoreOptions | None = None
    """The table of a Hive metastore that lists the partitions. `partition_commit` with the policy `metastore` adds them
    there, and `ttl` removes those that it deletes. By default no metastore is asked."""

    @field_validator("ignored")
    @classmethod
    def _are_names(cls, ignored: tuple[str, ...]) -> tuple[str, ...]:
        for name in ignored:
            if not name or "/" in name or not name.strip("*?"):
                raise ValueError(f"{shown(name)} is no name of some files: write one like '*.md5'")
        return ignored
