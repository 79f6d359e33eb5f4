"""Whether a partition is compacted: it has many small files, is inactive, and is older than any job that is restored.
Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.listing.tables import LOG_OF_A_SINK
from lakewarden.planners.formats.directory.options.compaction_options import CompactionOptions
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.formats.directory.service_needs import PartitionJudgement
from lakewarden.planners.formats.directory.writers.activity import active, moment
from lakewarden.planners.model.printable import printable
from lakewarden.planners.settings import format_duration


class CompactionState(Enum):
    """How far a partition is."""

    COMPACT = "compact"
    UNFIT = "unfit"
    ACTIVE = "active"
    WAITING = "waiting"
    DUE = "due"


@dataclass(frozen=True, kw_only=True, slots=True)
class CompactionRules:
    """What all partitions of a directory are judged by: its options, the horizon of a restored job, and the usual
    interval between two changes of one partition in seconds.
    """

    table: DirectoryTableOptions
    compaction: CompactionOptions
    horizon: timedelta
    usual: float | None = None


def compaction_rules(
    table: DirectoryTableOptions, options: CompactionOptions, *, usual: float | None
) -> CompactionRules | None:
    """Return the rules; None if the owner names no horizon."""
    if table.restore_horizon is None:
        return None
    return CompactionRules(table=table, compaction=options, horizon=table.restore_horizon, usual=usual)


def judge(
    path: str, folder: Folder, above: Iterable[Folder], rules: CompactionRules, now: datetime
) -> PartitionJudgement[CompactionState]:
    """Return how far the partition at a path below the table is. `above` are the folders above it."""
    least = rules.compaction.min_input_files
    if folder.small < least:
        return PartitionJudgement(state=CompactionState.COMPACT, reason=f"it has fewer than {least} small files")
    over = list(above)
    why_unfit = next(_unfit(path, folder, over), None)
    if why_unfit is not None:
        return PartitionJudgement(state=CompactionState.UNFIT, reason=why_unfit)
    at_work = active(folder, over, rules.usual, rules.table, now)
    if at_work is not None:
        return PartitionJudgement(state=CompactionState.ACTIVE, reason=at_work.reason, until=at_work.until)
    if folder.staged:
        reason = "it holds a part in progress that no job has finished"
        return PartitionJudgement(state=CompactionState.UNFIT, reason=reason)
    old_at = moment(folder.changed_at) + rules.horizon
    if now <= old_at:
        horizon = format_duration(rules.horizon)
        reason = f"it changed within restore_horizon, {horizon}"
        return PartitionJudgement(state=CompactionState.WAITING, reason=reason, until=old_at)
    return PartitionJudgement(state=CompactionState.DUE, reason=f"it has {folder.small} small files")


def _unfit(path: str, folder: Folder, over: Iterable[Folder]) -> Iterator[str]:
    if not path:
        yield "files that lie in the folder of the directory itself cannot be exchanged in one act"
    if folder.has_folders:
        yield "there are folders in it"
    if folder.has_log or any(one.has_log for one in over):
        yield f"the {LOG_OF_A_SINK} in it, or above it, lists its files by name for Spark"
    if folder.returned:
        yield (
            f"{printable(folder.returned)} is older than the file of a compaction beside it, so it came after that "
            "one. If a job that copies files has brought back what was compacted, its rows are there twice: remove "
            "the copies, and do not compact the target of such a job. If its rows are new, touch the file"
        )
