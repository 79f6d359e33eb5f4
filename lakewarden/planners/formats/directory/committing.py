"""When a partition of a directory is done, by the time that the names of its folders tell and by its writers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from heapq import nsmallest

from lakewarden.planners.formats.directory.listing.folders import Folder, partition_values
from lakewarden.planners.formats.directory.metastore import MetastoreLook, looked, values_of
from lakewarden.planners.formats.directory.options import (
    CommitAct,
    CommitTrigger,
    DirectoryTableOptions,
    MetastoreOptions,
    PartitionCommitOptions,
)
from lakewarden.planners.formats.directory.partitions import (
    MOST_SHOWN,
    PartitionJudgement,
    above_in,
    backlog_of,
    shown_path,
)
from lakewarden.planners.formats.directory.writers import active, moment
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.printable import counted
from lakewarden.planners.model.view import Backlog, Blocker
from lakewarden.planners.partitions import PartitionTimeOptions, time_of
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration, format_size, shown
from lakewarden.planners.storage.empty_files import empty_files


def partition_time(path: str, options: PartitionTimeOptions) -> datetime | None:
    """Return the time of the partition at a path below the table, in UTC; None where its values tell none."""
    return time_of(partition_values(path), options)


# What keeps partition commit from a directory.


def blockers(location: str, storage: Storage, commit: PartitionCommitOptions) -> Iterator[Blocker]:
    """Yield why no marker can be written, if so."""
    if CommitAct.SUCCESS_FILE in commit.policy.acts and empty_files(location, storage) is None:
        yield Blocker(
            code="unsupported_store",
            reason=f"there is no way yet to write a marker on a condition into the store of {location}",
            remedy="markers are written on local disks and S3: set the policy metastore, or remove "
            "services.partition_commit",
            services=frozenset({Service.PARTITION_COMMIT}),
        )


# What the metastore of a directory says, or why partition commit is Blocked by it.


@dataclass(frozen=True, kw_only=True, slots=True)
class MetastoreState:
    """What a metastore lists, or why that is not known. Neither if no metastore is to be asked. `kept` is what the next
    look may rely on.
    """

    look: MetastoreLook | None = None
    blocker: Blocker | None = None
    kept: MetastoreLook | None = None


def metastore_state(
    location: str,
    metastore: MetastoreOptions | None,
    commit: PartitionCommitOptions,
    folders: Mapping[str, Folder],
    last_look: MetastoreLook | None,
) -> MetastoreState:
    """Ask the metastore, if the policy needs it. A metastore that does not answer stops no other service."""
    if metastore is None or CommitAct.METASTORE not in commit.policy.acts:
        return MetastoreState()
    try:
        look = looked(metastore, location, folders, last_look)
    except TemporaryError as away:
        return MetastoreState(
            kept=last_look,
            blocker=_blocker("metastore_away", str(away), "start the metastore, or set options.metastore"),
        )
    except PermanentError as wrong:
        remedy = "set options.metastore to the table of the directory"
        return MetastoreState(blocker=_blocker("settings_refused", str(wrong), remedy))
    return MetastoreState(look=look, kept=look)


def _blocker(code: str, reason: str, remedy: str) -> Blocker:
    return Blocker(code=code, reason=reason, remedy=remedy, services=frozenset({Service.PARTITION_COMMIT}))


# What becomes of one partition, by the rules of Flink's partition commit and one more: it must be inactive. Pure.
#
# Source: Flink's `PartTimeCommitPredicate` (`watermark > partition time + delay`) and `ProcTimeCommitPredicate` (`now >
# creation + delay`). The watermark is the newest partition time that was seen. In place of the creation stands the
# newest change, which is never earlier. A partition is committed if each act of the policy was done after that.

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
        acts_done = " and ".join(_DONE[act] for act in rules.commit.policy.acts)
        return PartitionJudgement(state=PartitionState.COMMITTED, reason=f"{acts_done}, and it has not changed since")
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
    partition = None if rules.metastore is None else rules.metastore.partitions.get(path)
    return partition is not None and folder.changed_at <= partition.up_to


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
    partition = there.partitions.get(path)
    if partition is not None and partition.elsewhere is not None:
        return f"the metastore lists it at another place, {shown(partition.elsewhere)}"
    return None


def _waits_for_time(path: str, rules: Rules) -> str | None:
    """Return why the watermark has not passed a partition's time by the delay; None if it has."""
    time = partition_time(path, rules.commit)
    if time is None:
        return "its name tells no partition time"
    passed = rules.watermark is not None and rules.watermark - time > rules.commit.delay
    return None if passed else "no partition that is later by more than the delay has been seen"


# What partition commit has to do on a directory, and what people should know of its partitions. Pure.

_LONG = timedelta(days=1)
"""A part in progress that has not changed for so long is worth a look."""

_WORDS = {
    PartitionState.ACTIVE: "active",
    PartitionState.WAITING: "waiting",
    PartitionState.DUE: "to be committed",
    PartitionState.COMMITTED: "committed",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a look at all partitions says: how much there is, and a summary of what partition commit makes of it.
    `changes_at` is when time alone may change it.
    """

    amount: str
    summary: str
    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    notes: Mapping[Service, tuple[str, ...]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    last_change: datetime | None = None
    changes_at: datetime | None = None


def due(folders: Mapping[str, Folder], rules: Rules, now: datetime) -> list[str]:
    """Return the partitions that are to be committed, those with the oldest change first."""
    dated_paths = (
        (folder.changed_at, path)
        for path, folder in folders.items()
        if judge(path, folder, above_in(path, folders), rules, now).state is PartitionState.DUE
    )
    return [path for _, path in sorted(dated_paths)]


def needs_of(folders: Mapping[str, Folder], rules: Rules, now: datetime) -> Needs:
    """Judge every partition, and add up."""
    counts, files, size, until, waits = Counter[PartitionState](), 0, 0, list[datetime](), list[str]()
    to_commit = list[Folder]()
    for path, folder in folders.items():
        verdict = judge(path, folder, above_in(path, folders), rules, now)
        files, size = files + folder.files, size + folder.bytes
        counts[verdict.state] += 1
        if verdict.until is not None:
            until.append(verdict.until)
        if verdict.state is PartitionState.DUE:
            to_commit.append(folder)
        elif verdict.state in (PartitionState.ACTIVE, PartitionState.WAITING) and len(waits) < MOST_SHOWN:
            waits.append(_line(path, verdict))
    partitions = sum(counts[state] for state in _WORDS)
    counts_in_words = ", ".join(f"{counts[state]} {word}" for state, word in _WORDS.items() if counts[state])
    files_in_words = f"{counted(files, 'file')}, {format_size(size)}"
    summary = f"{counted(partitions, 'partition')} ({counts_in_words or 'none with data'}), {files_in_words}"
    changes_at = min(until, default=None)
    changed = max((folder.changed_at for folder in folders.values() if folder.files), default=None)
    return Needs(
        amount=f"{counted(partitions, 'partition')}, {files_in_words}",
        summary=summary,
        backlogs={Service.PARTITION_COMMIT: _backlog(to_commit)} if to_commit else {},
        at_rest={} if to_commit else {Service.PARTITION_COMMIT: _rest(summary, waits, changes_at)},
        notes={Service.PARTITION_COMMIT: (summary, *waits)},
        warnings=tuple(_warnings(folders.items(), now)),
        last_change=None if changed is None else moment(changed),
        changes_at=changes_at,
    )


def _backlog(partitions: list[Folder]) -> Backlog:
    return backlog_of(
        len(partitions),
        moment(min(folder.changed_at for folder in partitions)),
        files=sum(folder.files for folder in partitions),
        size=sum(folder.bytes for folder in partitions),
    )


def _rest(summary: str, waits: list[str], again_at: datetime | None) -> NotDue:
    reason = f"no partition is to be committed: {waits[0]}" if waits else f"no partition is to be committed: {summary}"
    return NotDue(reason=reason, again_at=again_at)


def _line(path: str, verdict: PartitionJudgement[PartitionState]) -> str:
    until = "" if verdict.until is None else f", until {verdict.until:%Y-%m-%d %H:%M:%S} UTC at least"
    return f"{shown_path(path)} is {_WORDS[verdict.state]}: {verdict.reason}{until}"


def _warnings(folders: Iterable[tuple[str, Folder]], now: datetime) -> Iterator[str]:
    """Yield the parts in progress that nothing seems to happen to, oldest first."""
    old = ((folder.staged_at, path, folder.staged) for path, folder in folders if folder.staged)
    for at, path, count in nsmallest(MOST_SHOWN, old):
        if now - moment(at) > _LONG:
            yield (
                f"{shown_path(path)} has {count} parts in progress that have not changed since "
                f"{moment(at):%Y-%m-%d %H:%M} UTC: its partition is not committed while they are there. Remove them if "
                "no job is restored that knows them, or set options.abandoned_after"
            )
