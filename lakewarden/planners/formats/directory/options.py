"""The name of a directory's marker."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from lakewarden.planners.metastores import URIS
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.partitions import PartitionTimeOptions
from lakewarden.planners.settings import Duration, Settings, Size, Within, shown
from lakewarden.planners.storage.locations import LONGEST_NAME_BYTES

# What the owner of a directory has set for one service.

# What the owner of a directory sets for each table service, in the terms of Flink's filesystem sink.

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
            raise ValueError(f"{shown(name)} is not a hidden file name: write one like '_SUCCESS'")
        if len(name.encode()) > LONGEST_NAME_BYTES:
            raise ValueError(f"{shown(name)} has more than {LONGEST_NAME_BYTES} bytes")
        return name


def marker_of(table: Table) -> str:
    """Return the name of the marker. A run knows the options of its own service alone."""
    commit = table.options_of(Service.PARTITION_COMMIT, PartitionCommitOptions)
    if Service.PARTITION_COMMIT in table.policies:
        return commit.success_file_name
    names = (getattr(policy.options, "success_file_name", None) for policy in table.policies.values())
    return next((name for name in names if isinstance(name, str)), commit.success_file_name)


# What the owner of a directory sets for the end of its partitions.


class TtlOptions(PartitionTimeOptions):
    """TTL: a partition is deleted when its time is long ago."""

    retain: Annotated[Duration, Within("1h", "3650d")] | None = None
    """So long a partition is kept after its time. There is no default, because it deletes data: without it the
    configuration is refused. Example: with `30d` the partition `dt=2026-03-01` is deleted from 2026-03-31 on."""

    max_partitions: Annotated[int, Within(1, 1_000_000)] = 1000
    """The most partitions that one run deletes, the oldest first."""


# What the owner of a directory sets for what dead jobs have left.


class OrphansOptions(Settings):
    """Orphans: parts in progress, and folders of such parts, that have not changed for `restore_horizon` are deleted.
    Only names that Flink, Spark and Hive are known to give are.
    """

    unchanged_for: Annotated[Duration, Within("1h", "3650d")] = Field(default="1d", validate_default=True)
    """A part is an orphan only if it has not changed for this long, too, however short `restore_horizon` is. An open
    part may stay unchanged for the checkpoint interval of a job that is alive."""

    max_files: Annotated[int, Within(1, 1_000_000)] = 10_000
    """The most parts and folders that one run deletes."""


# Where a Hive metastore lists the partitions of a directory.


class MetastoreOptions(Settings):
    """The table of a Hive metastore that lists the partitions of the directory. It needs
    the extra `hive`.
    """

    uri: str = Field(pattern=URIS, examples=["thrift://metastore:9083"])
    """The metastore, `thrift://host:9083`, with commas between several. The first that answers is used. Kerberos and
    TLS are not supported."""

    database: str = Field(min_length=1, max_length=256)
    """The database of the table there."""

    table: str = Field(min_length=1, max_length=256)
    """The name of the table there. Its location must be the directory."""

    timeout: Annotated[Duration, Within("100ms", "1m")] = Field(default="10s", validate_default=True)
    """A request fails if it is not answered within this time."""

    @property
    def place(self) -> str:
        """The table and its metastore, for messages."""
        return f"{self.database}.{self.table} at {self.uri}"


# What the owner of a directory tells us about it.


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
                raise ValueError(f"{shown(name)} is not a file name pattern: write one like '*.md5'")
        return ignored


# What the owner of a directory sets for its compaction.


class FileFormat(StrEnum):
    """What the data files of a directory are."""

    AUTO = "auto"
    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"
    CSV = "csv"
    JSON = "json"


class Publication(StrEnum):
    """How the new files of a partition take the place of the old ones."""

    EXCHANGE = "exchange"
    METASTORE = "metastore"
    WITH_DUPLICATES = "with_duplicates"


class CompactionOptions(Settings):
    """Compaction: the small files of a partition that is inactive beyond `restore_horizon` become few large ones."""

    target_file_size: Annotated[Size, Within("1B", "1TiB")] = Field(default="128MiB", validate_default=True)
    """The size of the new files: the bytes of the small files, divided by it, are their number."""

    small_file_limit: Annotated[Size, Within("1B", "1TiB")] | None = None
    """A smaller file is small, and is rewritten. A larger one stays as it is. By default half of `target_file_size`."""

    min_input_files: Annotated[int, Within(2, 1_000_000)] = 5
    """A partition with fewer small files is left as it is."""

    max_partitions: Annotated[int, Within(1, 100_000)] = 100
    """The most partitions that one run compacts, those with the most small files first; what is left waits for the next
    run, which follows at once."""

    files: FileFormat = FileFormat.AUTO
    """`auto` recognises Parquet, ORC and Avro by the first bytes of each file, with or without an extension. Text has
    no such bytes: `csv` is lines without a header, as Flink writes them, and `json` is one object a line. Text files
    are joined line by line, and no line is read. Avro files are joined block by block, and no block is read."""

    success_file_name: str = "_SUCCESS"
    """The name of the marker: that of `partition_commit`. A marker that is newer than the data of its partition is
    newer than the new files, too."""

    publication: Publication = Publication.EXCHANGE
    """`exchange` exchanges two folders in one act, so that every reader finds each row once. Local disks alone can.
    S3 has two weaker ways, and a table has to ask for one. `metastore` leads readers by `options.metastore` to the new
    files, and back when the partition holds them: those readers find each row once, and readers by path do not.
    `with_duplicates` puts the new files beside the old ones, and then deletes these: in between readers find rows
    twice."""

    reader_grace: Annotated[Duration, Within("0s", "7d")] = Field(default="10m", validate_default=True)
    """With `metastore`: so long a reader may go on in the folder to which the metastore has led it, after it leads
    elsewhere. Set it to more than the longest query."""

    @property
    def small_below(self) -> int:
        """The size in bytes below which a file is small."""
        return self.target_file_size // 2 if self.small_file_limit is None else self.small_file_limit

    @model_validator(mode="after")
    def _comes_to_an_end(self) -> CompactionOptions:
        if self.small_file_limit is not None and self.small_file_limit > self.target_file_size:
            raise ValueError("small_file_limit is more than target_file_size: every new file would be small again")
        return self
