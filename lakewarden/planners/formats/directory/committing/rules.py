"""What becomes of one partition, by the rules of Flink's partition commit and one more: it must be inactive. Pure.

Source: Flink's `PartTimeCommitPredicate` (`watermark > partition time + delay`) and `ProcTimeCommitPredicate`
(`now > creation + delay`). The watermark is the newest partition time that was seen. In place of the creation stands
the newest change, which is never earlier. A partition is committed if each act of the policy was done after that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from lakewarden.planners.formats.directory.committing.partition_time import partition_time
from lakewarden.planners.formats.directory.listing.folders import Folder
from lakewarden.planners.formats.directory.metastore.listed import MetastoreLook, values_of
from lakewarden.planners.formats.directory.options.service_options import (
    CommitAct,
    CommitTrigger,
    PartitionCommitOptions,
)
from lakewarden.planners.formats.directory.options.table_options import DirectoryTableOptions
from lakewarden.planners.formats.directory.service_needs import PartitionJudgement
from lakewarden.planners.formats.directory.writers.activity import active, moment
from lakewarden.planners.settings import format_duration, shown

_TICK = timedelta(seconds=1)
"""Some stores count whole seconds. Two changes in the same second have one time. So a metastore learns of a change when
that second is over."""


class PartitionState(Enum):
    """How far a partition is."""

    EMPTY = "empty"
    ACTIVE = "active"
    WAITING = "waiting"
    DUE = "due"
    COMMITTED = "committed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Rules:
    """What all partitions of a directory are judged by: its options, the usual interval between two changes of one
    partition in seconds, and the watermark. `watermark` is None without a partition time. `metastore` is None if no
    metastore is to be asked, or none has answered.
    """

    table: DirectoryTableOptions
    commit: PartitionCommitOptions
    usual: float | None = None
    watermark: datetime | None = None
    metastore: MetastoreLook | None = None


def rules_of(
    folders: Mapping[str, Folder],
    table: DirectoryTableOptions,
    commit: PartitionCommitOptions,
    now: datetime,
    *,
    usual: float | None,
    metastore: MetastoreLook | None = None,
) -> Rules:
    """Return the rules, with what is learned from all partitions. A partition time that is later than `now` moves no
    watermark: one wrong value would end the waiting of all.
    """
    watermark = None
    if commit.trigger is CommitTrigger.PARTITION_TIME:
        times = (partition_time(path, commit) for path, folder in folders.items() if folder.files)
        watermark = max((time for time in times if time is not None and time <= now), default=None)
    return Rules(table=table, commit=commit, usual=usual, watermark=watermark, metastore=metastore)


def judge(
    path: str, folder: Folder, above: Iterable[Folder], rules: Rules, now: datetime
) -> PartitionJudgement[PartitionState]:
    """Return how far the partition at a path below the table is. The folder without a name is the table itself."""
    at_work = active(folder, above, rules.usual, rules.table, now) if folder.is_partition else None
    if at_work is not None:
        return PartitionJudgement(state=PartitionState.ACTIVE, reason=at_work.reason, until=at_work.until)
    if folder.files == 0 or not path:
        return PartitionJudgement(state=PartitionState.EMPTY, reason="there is no data of a partition in it")
    if (strange := _strange(path, rules)) is not None:
        return PartitionJudgement(state=PartitionState.WAITING, reason=strange)
    left = acts_left(path, folder, rules)
    if not left:
        told = " and ".join(_DONE[act] for act in rules.commit.policy.acts)
        return PartitionJudgement(state=PartitionState.COMMITTED, reason=f"{told}, and it has not changed since")
    delay = max(rules.commit.delay, _TICK) if CommitAct.METASTORE in left else rules.commit.delay
    ends_at = moment(folder.changed_at) + delay
    if now <= ends_at:
        reason = f"it changed within the delay {format_duration(delay)}"
        return PartitionJudgement(state=PartitionState.WAITING, reason=reason, until=ends_at)
    waits = _waits_for_time(path, rules) if rules.commit.trigger is CommitTrigger.PARTITION_TIME else None
    if waits is not None:
        return PartitionJudgement(state=PartitionState.WAITING, reason=waits)
    late = ", and has changed since it was committed" if _was_committed(path, folder, rules) else ""
    return PartitionJudgement(state=PartitionState.DUE, reason=f"it is inactive{late}")


_DONE = {CommitAct.SUCCESS_FILE: "it has a marker", CommitAct.METASTORE: "the metastore lists it"}


def acts_left(path: str, folder: Folder, rules: Rules) -> tuple[CommitAct, ...]:
    """Return what is left to do for a partition, in the order of the policy. After a kill that may be a part."""
    done = {CommitAct.SUCCESS_FILE: folder.is_committed, CommitAct.METASTORE: _is_listed(path, folder, rules)}
    return tuple(act for act in rules.commit.policy.acts if not done[act])


def _is_listed(path: str, folder: Folder, rules: Rules) -> bool:
    one = None if rules.metastore is None else rules.metastore.partitions.get(path)
    return one is not None and folder.changed_at <= one.up_to


def _was_committed(path: str, folder: Folder, rules: Rules) -> bool:
    return folder.marker is not None or (rules.metastore is not None and path in rules.metastore.partitions)


def _strange(path: str, rules: Rules) -> str | None:
    """Return why the metastore cannot list a partition; None if it can."""
    if CommitAct.METASTORE not in rules.commit.policy.acts:
        return None
    there = rules.metastore
    if there is None:
        return "the metastore was not asked"
    if values_of(path, there.columns) is None:
        columns = ", ".join(column.name for column in there.columns)
        return f"its folders are not the partition columns of the table in the metastore ({shown(columns)})"
    if (name := there.taken.get(path)) is not None:
        return f"the metastore lists its folder as another partition, {shown(name)}"
    one = there.partitions.get(path)
    if one is not None and one.elsewhere is not None:
        return f"the metastore lists it at another place, {shown(one.elsewhere)}"
    return None


def _waits_for_time(path: str, rules: Rules) -> str | None:
    """Return why the watermark has not passed a partition's time by the delay; None if it has."""
    time = partition_time(path, rules.commit)
    if time is None:
        return "its name tells no partition time"
    passed = rules.watermark is not None and rules.watermark - time > rules.commit.delay
    return None if passed else "no partition that is later by more than the delay has been seen"
