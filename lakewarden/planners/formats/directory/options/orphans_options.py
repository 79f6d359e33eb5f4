"""What the owner of a directory sets for what dead jobs have left."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.settings import Duration, Settings, Within


class OrphansOptions(Settings):
    """Orphans: parts in progress, and folders of such parts, that have not changed for `restore_horizon` are deleted.
    Only names that Flink, Spark and Hive are known to give are.
    """

    unchanged_for: Annotated[Duration, Within("1h", "3650d")] = Field(default="1d", validate_default=True)
    """A part is an orphan only if it has not changed for this long, too, however short `restore_horizon` is. An open
    part may stay unchanged for the checkpoint interval of a job that is alive."""

    max_files: Annotated[int, Within(1, 1_000_000)] = 10_000
    """The most parts and folders that one run deletes."""
