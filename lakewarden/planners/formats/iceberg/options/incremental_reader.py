"""A reader of new rows that the owner of an Iceberg table declares."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Within


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
