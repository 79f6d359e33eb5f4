"""What the owner of a directory sets for its compaction."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, model_validator

from lakewarden.planners.settings import Duration, Settings, Size, Within


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
