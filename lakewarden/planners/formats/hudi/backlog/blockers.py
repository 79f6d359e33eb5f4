"""What blocks services on a Hudi table, with the remedy for an operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from lakewarden.planners.formats.hudi.damage import Damage
from lakewarden.planners.formats.hudi.metadata.heartbeats import may_show_a_first_beat
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, Layout
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.timeline import Known, LastClean
from lakewarden.planners.formats.hudi.options.service_options import (
    HOURS_BY_HUDI,
    RETAINED_BY_HUDI,
    CleanOptions,
    CleanPolicy,
    options_of,
)
from lakewarden.planners.formats.hudi.options.table_options import FilesystemLock, HudiTableOptions
from lakewarden.planners.formats.hudi.writers.acquisitions.samples import leaves_traces
from lakewarden.planners.formats.hudi.writers.activity import BE_LAZY
from lakewarden.planners.model.instant import Instant, InstantKind, Service, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, KeptMore
from lakewarden.planners.settings import format_duration

_READABLE = frozenset({"PARQUET", "ORC", "HFILE"})
"""Formats of base files that the bundle reads without further libraries. It cannot read LANCE (run)."""

_NOT_WRITTEN = "ORC"
"""A compaction fails ("Not support write to Orc file"), and a clustering (".orc format not supported yet"), as Hudi's
own do (run on 1.2.0).
"""

_MOST_SHOWN = 5
_FUTURE = timedelta(seconds=30)

KNOWN_VERSIONS = frozenset({"6", "8", "9"})
"""The table versions with a timeline that Lakewarden reads and with services that were tried: Hudi 0.14 to 1.2."""

_NAME_THE_LOCK = """\
set the lock that the table's writers use:
  options:
    lock:
      provider: zookeeper
      url: HOST:PORT
      base_path: /PATH
      lock_key: KEY
or, if the table has no writers while Lakewarden serves it:
  options:
    writers: none"""


def blockers(
    table: Table, options: HudiTableOptions, timeline: Timeline, properties: TableProperties, *, now: datetime
) -> Iterator[Blocker]:
    """Yield what blocks services, the gravest first."""
    if properties.damage:
        yield broken_off(properties.damage)
    elif properties.base_file_format not in _READABLE:
        yield Blocker(
            code="unsupported_table",
            reason=f"the table's base files are {properties.base_file_format}, which Hudi's bundle does not read here",
            remedy="remove the table's policies",
        )
    elif properties.base_file_format == _NOT_WRITTEN:
        yield Blocker(
            services=frozenset({Service.COMPACTION, Service.CLUSTERING}),
            code="unsupported_table",
            reason="the table's base files are ORC, which Hudi 1.2 on Spark reads and does not write",
            remedy="remove its compaction and clustering policies, or rewrite the table as Parquet",
        )
    if properties.version not in KNOWN_VERSIONS:
        yield Blocker(
            code="unsupported_version",
            reason=f"table version {properties.version} is unknown to Lakewarden",
            remedy=f"Lakewarden knows versions {', '.join(sorted(KNOWN_VERSIONS))}: upgrade Lakewarden or the table",
        )
    for instant in timeline.instants:
        if instant.pending and instant.stands_for is InstantKind.RESTORE:
            yield Blocker(
                code="other_plan_first",
                reason=f"restore {instant.time} is in flight",
                remedy="wait until the restore has ended, or remove what is left of it",
            )
    if options.lock is None and options.writers == "live":
        yield Blocker(
            code="lock_missing",
            reason="no lock is configured that Lakewarden and the table's writers share",
            remedy=_NAME_THE_LOCK,
        )
    watched = options.lock if options.lock_proof == "observed" and options.writers == "live" else None
    if watched is not None and not leaves_traces(watched):
        yield Blocker(
            code="lock_not_proved",
            reason=f"a {watched.provider} lock leaves no trace when it is taken: nothing shows that the table's "
            "writers use the configured lock",
            remedy="compare the lock options of every writer with `lakewarden writer-options TABLE`, then declare:\n"
            "  options:\n    lock_proof: trusted",
        )
    if properties.layout is Layout.V1:
        yield from _hidden_by_compactions(timeline, now)
    yield from _meaningless(table, properties)


def broken_off(damage: Damage) -> Blocker:
    """Return why a half-written `hoodie.properties` blocks every service. Hudi would go by what is left of it, and its
    next update would delete the backup.
    """
    whence = "which hoodie.properties.backup has" if damage.has_backup else "which a table like this has"
    parts = [
        *([f"lacks {_some(damage.lacks)}, {whence}"] if damage.lacks else []),
        *([f"says {_some(damage.says)}"] if damage.says else []),
    ]
    remedy = (
        "compare the two files: if no program is updating the table, copy the backup over hoodie.properties, or delete "
        "the backup if hoodie.properties is the right one"
        if damage.has_backup
        else "stop the table's writers, and fix these lines: as they were, or as the writer would set them for a new "
        "table"
    )
    if "hoodie.table.ordering.fields" in damage.lacks and not damage.has_backup:
        remedy += ". If it never had any, set hoodie.record.merge.mode=COMMIT_TIME_ORDERING, here and in its writers"
    return Blocker(
        code="properties_broken_off",
        reason=f"hoodie.properties is incomplete: it {', and it '.join(parts)}",
        remedy=remedy,
    )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_MOST_SHOWN]) + (" ..." if len(names) > _MOST_SHOWN else "")


def _hidden_by_compactions(timeline: Timeline, now: datetime) -> Iterator[Blocker]:
    """Yield the services that would hide the rows of a write in flight without a heartbeat, if the write is alive.

    In layout 1 a log file belongs to the base file that its writer has seen. Only a conflict check keeps a write from
    completing into a slice that was compacted meanwhile. A plan that is older than the write hides nothing.
    """
    for write in _without_heartbeat(timeline, now):
        for service in (Service.COMPACTION, Service.LOG_COMPACTION):
            if any(plan.time < write.time for plan in timeline.pending(service)):
                continue
            yield Blocker(
                services=frozenset({service}),
                code="guarded_by_heartbeat",
                reason=f"{_unknown(write.time)}; if it is alive, a {service} would hide its rows on a table below "
                "version 8",
                remedy=BE_LAZY,
            )


def notes(timeline: Timeline, *, now: datetime) -> Mapping[Service, tuple[str, ...]]:
    """Return what an operator should know of writes in flight that may be alive or dead."""
    unknown = ", ".join(write.time for write in _without_heartbeat(timeline, now))
    if not unknown:
        return {}
    return {
        Service.ROLLBACK: (f"{_unknown(unknown)}; it is left alone. To detect dead writes in minutes, {BE_LAZY}",),
        Service.ARCHIVE: (f"{_unknown(unknown)}; nothing younger is archived",),
    }


def returning_keys(
    table: Table, options: HudiTableOptions, properties: TableProperties, *, in_buckets: bool
) -> Mapping[Service, str]:
    """Return what a compaction leaves out because a deleted key may come back meanwhile (docs/hudi.md). `in_buckets`:
    the newest commits wrote to buckets. Another writer may have another index, because Hudi keeps it in no table.
    """
    if not options.looks_for_returning_keys or not properties.merge_on_read or Service.COMPACTION not in table.policies:
        return {}
    declare = (
        "The newest commits wrote to buckets. If all writers have hoodie.index.type=BUCKET, declare the bucket_index"
        if in_buckets
        else "If every writer has another index, declare options: {returning_keys: trusted}, or the bucket_index"
    )
    return {
        Service.COMPACTION: "a compaction that drops deleted rows leaves out the file groups in which one of their "
        "keys was written again since its plan, or may be by a write in flight: with the indexes SIMPLE and BLOOM such "
        f"a key would be there twice. Below table version 8 it waits for the writers instead. {declare}"
    }


def _unknown(write: str) -> str:
    return f"write {write} is in flight without a heartbeat: it has failed, or its writer is not LAZY"


def _without_heartbeat(timeline: Timeline, now: datetime) -> Iterator[Instant]:
    """Yield the writes in flight without a heartbeat that are too old for their first one to be still on its way."""
    for write in timeline.writes_in_flight():
        if write.guarded_until is None and not may_show_a_first_beat(write, now):
            yield write


def in_the_future(timeline: Timeline, now: datetime) -> tuple[Blocker, datetime] | None:
    """Return what blocks every service because a completed instant is dated in the future, and until when. What is
    planned before that sorts before a commit that is there already, and Hudi goes by that order.
    """
    completed = (instant for instant in timeline.instants if not instant.pending)
    newest = max(completed, key=_newest_time, default=None)
    if newest is None or (ends := _newest_time(newest)) <= now + _FUTURE:
        return None
    ahead = format_duration(timedelta(seconds=round((ends - now).total_seconds())))
    blocker = Blocker(
        code="instant_in_the_future",
        reason=f"instant {newest.time} is dated {ahead} ahead of this daemon's clock: what is planned before that "
        "time sorts before it",
        remedy="compare the clocks of the writer and the daemon; the services go on at that time",
    )
    return blocker, ends


def _newest_time(instant: Instant) -> datetime:
    return max(instant.requested_at, instant.completed_at or instant.requested_at)


def _meaningless(table: Table, properties: TableProperties) -> Iterator[Blocker]:
    """Yield the policies that have nothing to do on a table of this kind."""
    reasons: dict[Service, str] = {}
    if not properties.merge_on_read:
        no_logs = "the table is copy-on-write: it has no log files to compact"
        reasons = dict.fromkeys((Service.COMPACTION, Service.LOG_COMPACTION), no_logs)
    if not properties.partitioned:
        reasons[Service.TTL] = "the table has no partitions that could expire"
    for service in (service for service in reasons if service in table.policies):
        yield Blocker(
            services=frozenset({service}),
            code="does_not_apply",
            reason=reasons[service],
            remedy=f"remove its {service} policy",
            moot=True,
        )
    if properties.layout is Layout.V1 and Service.METADATA_REBUILD in table.policies:
        yield Blocker(
            services=frozenset({Service.METADATA_REBUILD}),
            code="index_in_the_way",
            reason="below table version 8 Hudi makes no metadata table while anything is pending, so none is rebuilt "
            "beside writers",
            remedy="stop the table's writers, CALL delete_metadata_table, and let a writer's next commit rebuild it",
            only_if_configured=True,
        )


def warnings(
    options: HudiTableOptions, properties: TableProperties, known_instants: Iterable[Known]
) -> tuple[str, ...]:
    """Return what an operator should know of the table and its settings although it blocks nothing."""
    remarks = []
    checked = properties.merge_on_read and options.looks_for_returning_keys
    if checked and any(instant.written is not None and instant.written.deletes for instant in known_instants):
        remarks.append(
            "its commits delete rows. With the indexes SIMPLE and BLOOM a deleted key that is written again while a "
            "compaction is pending is there twice afterwards. Lakewarden's compactions prevent it, and those of other "
            "programs do not. No service removes such rows. This query finds them: SELECT _hoodie_partition_path, "
            "_hoodie_record_key, count(*) FROM t GROUP BY 1, 2 HAVING count(*) > 1"
        )
    if isinstance(options.lock, FilesystemLock):
        remarks.append(
            "the filesystem lock is not exclusive: a client that times out deletes its holder's lock. "
            "It is for trials; use ZooKeeper beside real writers."
        )
    if options.lock is not None and options.lock_proof == "trusted" and options.writers == "live":
        remarks.append(
            "lock_proof: trusted: nothing checks whether the writers take the configured lock. A writer with "
            "another lock loses acknowledged updates silently."
        )
    return tuple(remarks)


# What an operator does about a file of the timeline that broke off. Pure.
#
# A plan that was not begun may go between two writes: it is planned anew. One that was begun has left files, and an
# archive beyond it would make them part of the table. Below table version 8 a log file bears the time of a plan.

_PLAN = re.compile(r"(\d+)\.(clean|compaction|logcompaction|clustering|replacecommit)\.requested ")
_COMPLETED = re.compile(r"\d+(_\d+)?\.(commit|deltacommit|replacecommit) ")
_WAIT = "wait a minute, because it may be being written. If it stays so, "


def mending(faults: Sequence[str], layout: Layout) -> str | None:
    """Return what to do about the first of the faults. None if there is none, or its sentence says it."""
    fault = faults[0] if faults else ""
    plan = _PLAN.match(fault)
    if plan is not None:
        return _WAIT + _of_a_plan(plan[1], plan[2], layout)
    if _COMPLETED.match(fault):
        return _WAIT + "restore it from a backup of the table. Do not delete it: the rows that it committed would go"
    return None


def _of_a_plan(time: str, action: str, layout: Layout) -> str:
    file, begun = f"{time}.{action}.requested", f"{time}.{action}.inflight"
    if action == "clean":
        return f"stop the table's writers, and delete {file}, and {begun} if it is there. The clean is planned again"
    named = "" if layout is Layout.V2 else f" and no log file with {time} in its name"
    return (
        f"stop the table's writers. If there is no {begun}{named}, delete {file}: it is planned again. "
        "Otherwise restore it "
        "from a backup of the table"
    )


# Whether the policy of clean keeps fewer commits than the newest clean did. Readers may count on those. Pure.


def kept_more(table: Table, timeline: Timeline, cleaned: LastClean | None) -> Mapping[Service, KeptMore]:
    """Return what the newest clean kept and the policy would not have kept at that time. Nothing if there was no clean,
    or if one of the two counts versions of files.

    Commits that have left the active timeline are not counted. So the clean may have kept more than is said. A write
    that was in flight when the clean was planned is not counted either, because Hudi did not count it.
    """
    if Service.CLEAN not in table.policies or cleaned is None or cleaned.retained is None or cleaned.seen is None:
        return {}
    options = options_of(table, Service.CLEAN, CleanOptions) or CleanOptions()
    done = [i for i in timeline.instants if not i.pending and Action(i.action).completed_as in COMMITS]
    planned_at = next((i.requested_at for i in timeline.instants if i.time == cleaned.instant), None)
    between = [i for i in done if cleaned.retained <= i.time <= cleaned.seen]
    kept = [i for i in between if planned_at is None or not _completed_after(i, planned_at)]
    if not kept:
        return {}
    match CleanPolicy(options.policy):
        case CleanPolicy.KEEP_LATEST_COMMITS:
            keeps = options.commits_retained or RETAINED_BY_HUDI
        case CleanPolicy.KEEP_LATEST_BY_HOURS:
            since = kept[-1].requested_at - timedelta(hours=options.hours_retained or HOURS_BY_HUDI)
            keeps = sum(i.requested_at >= since for i in kept)
        case _:
            return {}
    if len(kept) <= keeps:
        return {}
    commits = "1 commit" if keeps == 1 else f"{keeps:,} commits"
    says = f"the policy keeps {commits}, where the newest clean {cleaned.instant} kept {len(kept):,}"
    return {Service.CLEAN: KeptMore(says=says, instant=cleaned.instant, commits=len(kept))}


def _completed_after(instant: Instant, moment: datetime) -> bool:
    """Whether the timeline says that an instant was completed later. Below table version 8 it says nothing of that."""
    return instant.completed_time is not None and instant.completed_at is not None and instant.completed_at > moment
