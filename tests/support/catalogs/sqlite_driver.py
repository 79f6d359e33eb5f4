"""What Spark needs for a catalog in SQLite. It is no bundle of ours: whoever runs such a catalog brings its driver."""

from __future__ import annotations

from pathlib import Path

from lakewarden.executors.worker.bundles import bring
from live.sqlite_driver import SQLITE


def sqlite_driver() -> Path:
    """Return the jar of the driver, fetched where it is missing."""
    return bring(SQLITE)
