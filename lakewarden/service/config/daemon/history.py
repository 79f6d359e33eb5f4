"""The settings of the history: decisions and the logs of runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Size, Within


class HistorySettings(Settings):
    """The past that operators can read: what was decided, and the logs of runs."""

    keep: Annotated[Duration, Within("1h", "3650d")] = Field(default="30d", validate_default=True)
    """Changes of decisions are deleted after this long. A decision that still holds stays."""

    decisions: Annotated[int, Within(1000, 100_000_000)] = 1_000_000
    """So many changes of decisions are kept at most. The oldest are deleted first. A row needs some 400 bytes."""

    run_log: Annotated[Size, Within("16KiB", "64MiB")] = Field(default="1MiB", validate_default=True)
    """So much of the log of one run is kept: its first lines, and its last lines."""

    run_logs: Annotated[Size, Within("1MiB", "1TiB")] = Field(default="1GiB", validate_default=True)
    """So much of the logs of all runs is kept in data_dir. The oldest are deleted first. A log is also deleted if its
    last line is older than `daemon.keep_runs`.
    """
