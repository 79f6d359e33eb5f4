"""The settings of a fake table and its services."""

from __future__ import annotations

from typing import Annotated

from lakewarden.planners.settings import Settings, Within


class FakeTableOptions(Settings):
    """What is pretended of a fake table."""

    locked: bool = True
    """Without a lock nothing runs on the table, as with the real formats."""


class FakeCompactionOptions(Settings):
    """Compaction of a fake table's log files."""


class FakeCleanOptions(Settings):
    """Clean of a fake table's old file versions."""

    versions_retained: Annotated[int, Within(1, 1_000_000)] = 1
    """Newest file versions that stay."""


class FakeClusteringOptions(Settings):
    """Clustering of a fake table's newest file version."""


class FakeArchiveOptions(Settings):
    """Archive of a fake table's oldest instants."""

    instants_retained: Annotated[int, Within(1, 1_000_000)] = 10
    """Newest instants that stay on the timeline."""
