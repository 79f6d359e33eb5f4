"""What the owner of a Paimon table tells us about it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from lakewarden.planners.model.table import Table
from lakewarden.planners.settings import Duration, Settings, Within


class PaimonTableOptions(Settings):
    """The facts about a Paimon table that Lakewarden needs and the table itself does not say."""

    left_alone_for: Annotated[Duration, Within("1m", "30d")] = Field(default="1h", validate_default=True)
    """After a compaction by another program Lakewarden compacts nothing for this time: if two programs compact one
    bucket, the later commit fails, and a Flink job that makes it restarts. An append table is also left alone for this
    time after a commit that replaced files (OVERWRITE)."""

    longest_outage: Annotated[Duration, Within("0s", "365d")] = Field(default="24h", validate_default=True)
    """The longest time for which a writer or a reader may stop and then continue. No younger snapshot expires, whatever
    the table's own options say: a restored Flink job looks for its last commit in the table's snapshots. No younger
    file is an orphan: a restored job commits files that it wrote before it stopped."""

    flink_restores: Annotated[Duration, Within("0s", "365d")] = Field(default="7d", validate_default=True)
    """The longest time after which a stopped Flink job is restored. Until then the last snapshot of each streaming
    commit user stays, with all that are younger. No younger file is an orphan, because a savepoint may know it."""

    keep_last_flink_commit: bool = True
    """Keep the last snapshot of the streaming commit user that committed last, without limit. That job may still run.
    If no such job runs, set it to false."""


def own_options(table: Table) -> PaimonTableOptions:
    """Return what the owner of the table has set, or the defaults."""
    return table.options if isinstance(table.options, PaimonTableOptions) else PaimonTableOptions()
