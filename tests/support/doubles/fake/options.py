"""The settings of a fake table and its services."""

from __future__ import annotations

from typing import Annotated

from lakewarden.planners.settings import Settings, Within


class FakeTableOptions(Settings):
    """The settings of one fake table."""

    locked: bool = True
    """If false, the table has no lock, and no service runs on it, as with the real formats."""


class FakeCompactionOptions(Settings):
    """Compaction of the log files of a fake table."""


class FakeCleanOptions(Settings):
    """Clean of the old file versions of a fake table."""

    versions_retained: Annotated[int, Within(1, 1_000_000)] = 1
    """The number of the newest file versions that stay."""


class FakeClusteringOptions(Settings):
    """Clustering of the newest file version of a fake table."""


class FakeArchiveOptions(Settings):
    """Archive of the oldest instants of a fake table."""

    instants_retained: Annotated[int, Within(1, 1_000_000)] = 10
    """The number of the newest instants that stay on the timeline."""
