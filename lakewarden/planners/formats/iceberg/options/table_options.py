"""What the owner of an Iceberg table sets for the table."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator

from lakewarden.planners.model.table import Table
from lakewarden.planners.settings import Duration, Settings, Within, shown
from lakewarden.planners.storage.inside import NoPlaceError, place_of

# A reader of new rows that the owner of an Iceberg table declares.


class ReaderKind(StrEnum):
    """The snapshots at which a reader stops, and starts again."""

    STREAM = "stream"
    SCAN = "scan"


class IncrementalReader(Settings):
    """A reader of the table's new rows, from a position of its own on. The snapshot at which it stands does not expire.
    Snapshots that it has not read yet do not expire either.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Its name in messages."""

    branch: str = Field(default="main", min_length=1, max_length=200)
    """The branch that it reads. The branch stays as long as the reader is declared, whatever its age
    (`max-ref-age-ms`). If the table has no such branch, clean is Blocked."""

    longest_lag: Annotated[Duration, Within("1m", "3650d")]
    """It is never further behind the head of its branch than this. A reader that was stopped for longer may find its
    snapshot expired, and fails."""

    kind: ReaderKind = ReaderKind.STREAM
    """`stream` is a query of Spark's Structured Streaming. It stands at the last append that it has read, however many
    other snapshots follow. `scan` is a reader that stands at the snapshot that was the newest when it last read: an
    incremental scan, a changelog view, a source of Flink. Less is kept for a `scan`."""


METADATA_PATH = "write.metadata.path"
PLACES = ("write.data.path", "write.object-storage.path", "write.folder-storage.path", METADATA_PATH)
"""Properties of a table that move its files out of the usual folders. Source: Iceberg 1.11, `TableProperties`."""


class Outside(StrEnum):
    """What happens to files outside the table's folders that it does not need any more."""

    REFUSE = "refuse"
    LEAVE = "leave"


class IcebergTableOptions(Settings):
    """The facts about an Iceberg table that Lakewarden needs and the table itself does not say."""

    longest_outage: Annotated[Duration, Within("0s", "365d")] = Field(default="24h", validate_default=True)
    """The longest time for which a writer may stop and then continue. No younger snapshot expires: a restored Flink job
    looks for its last commit in the table's history. If the commit is gone, the job commits it again. No younger file
    is an orphan: a worker of Kafka Connect commits the files that it wrote before it stopped."""

    flink_restores: Annotated[Duration, Within("0s", "365d")] = Field(default="7d", validate_default=True)
    """The longest time after which a stopped Flink job, or another sink, is restored. Until then all snapshots stay
    between the head of its branch and its newest snapshot. The job looks for its last commit there. Each redeployed job
    has another id, so the newest snapshot of the job before it stays for this time. No younger file is an orphan,
    because a checkpoint may know it."""

    keep_last_flink_commit: bool = True
    """Keep the newest snapshot of the Flink job that committed last to a branch, and all snapshots since, also after
    `flink_restores`: that job may still run. The same holds for a stream of Spark, and for each key that another sink
    writes into the summaries of snapshots, as `kafka.connect.offsets.<topic>.<group>`. A sink counts as retired once a
    thousand snapshots follow. If no such sink runs, set it to false: then the snapshot, and the rows of its time, may
    expire after `flink_restores`."""

    ignored_marks: tuple[str, ...] = Field(default=(), max_length=100)
    """Keys in the summaries of snapshots that no sink looks for, as patterns: `pipeline.*`. Other unknown keys count as
    marks of sinks. Those of Flink and of Spark's streams count in any case."""

    readers: tuple[IncrementalReader, ...] = Field(default=(), max_length=100)
    """The table's incremental readers. A clean keeps the snapshots of each branch that the slowest of its readers may
    still need, whatever other settings say."""

    quiet_intervals: Annotated[int, Within(0, 1000)] = 3
    """A partition that a MERGE, UPDATE or DELETE has touched is left alone for so many of its usual intervals between
    such commits, but at least for `quiet_for`. With 0 only `quiet_for` counts."""

    quiet_for: Annotated[Duration, Within("0s", "30d")] = Field(default="1m", validate_default=True)
    """The least time for which such a partition is left alone."""

    distance: Annotated[Duration, Within("0s", "1d")] = Field(default="30s", validate_default=True)
    """The least time between two commits of Lakewarden on a table with such a writer."""

    folders: tuple[str, ...] = ()
    """Folders that hold files of this table alone (`write.data.path`). Lakewarden also deletes there what the table
    does not need any more, whatever the names of the files are. It deletes nothing in other folders outside the
    location, and in the location no file of data that no writer of Iceberg has named."""

    outside: Outside = Outside.REFUSE
    """What clean does if the expiry would leave files outside these folders, or files that no writer of Iceberg has
    named: `refuse` expires nothing and names one of them, `leave` leaves them there. `leave` is right for files that
    came by `add_files`."""

    @field_validator("folders")
    @classmethod
    def _each_is_a_folder(cls, folders: tuple[str, ...]) -> tuple[str, ...]:
        for folder in folders:
            try:
                names = place_of(folder, store="").names
            except NoPlaceError as no_place:
                raise ValueError(f"{shown(folder)} {no_place}") from no_place
            if not names:
                reason = "is a whole disk or bucket: name the folder that is this table's alone"
                raise ValueError(f"{shown(folder)} {reason}")
        return folders


def options_of(table: Table) -> IcebergTableOptions:
    """Return the options of a table. Without any they are the defaults."""
    return table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()
