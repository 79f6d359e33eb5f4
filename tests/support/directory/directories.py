"""Directories of files as writers leave them, with times that a test chooses."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from lakewarden.planners.formats.directory.options import DirectoryTableOptions, PartitionCommitOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Policy, Table, TableId
from lakewarden.planners.triggers import NumCommits


def directory_table(
    location: str | Path, commit: PartitionCommitOptions | None = None, options: DirectoryTableOptions | None = None
) -> Table:
    """Return a registered directory with a policy for partition commit."""
    policy = Policy(trigger=NumCommits(at_least=1), options=commit or PartitionCommitOptions())
    return Table(
        id=TableId("trips"),
        format="directory",
        location=str(location),
        mode=Mode.ACT,
        options=options or DirectoryTableOptions(),
        policies={Service.PARTITION_COMMIT: policy},
    )


def put(file: Path, at: datetime, content: bytes = b"row\n") -> None:
    """Write a file. It and its folder are of that time."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    for path in (file, file.parent):
        age(path, at)


def age(path: Path, at: datetime) -> None:
    """Give a file or a folder a time."""
    os.utime(path, (at.timestamp(), at.timestamp()))
