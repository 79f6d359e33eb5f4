"""The backlog of each service, counted as Hudi's own schedulers count (docs/hudi.md)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from lakewarden.planners.formats.hudi.backlog.neglected import Uncleaned
from lakewarden.planners.formats.hudi.indexes.file_groups import FileGroups
from lakewarden.planners.formats.hudi.indexes.indexes import to_build, to_drop
from lakewarden.planners.formats.hudi.metadata.heartbeats import dead_since
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action, Layout
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties
from lakewarden.planners.formats.hudi.metadata.savepoints import in_flight as savepoints_in_flight
from lakewarden.planners.formats.hudi.metadata.timeline import LastClean
from lakewarden.planners.formats.hudi.options.service_options import (
    ClusteringOptions,
    IndexingOptions,
    RollbackOptions,
    options_of,
)
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import Instant, InstantKind, Service, Timeline
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.model.view import Backlog

_REWRITES = (Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING)
_SMALL_FILE = 100 * 2**20
"""`hoodie.parquet.small.file.limit` as Hudi sets it. A writer's own setting is recorded nowhere."""


def backlogs(
    table: Table,
    timeline: Timeline,
    properties: TableProperties,
    *,
    cleaned: LastClean | None,
    uncleaned: Uncleaned | None,
    groups: FileGroups | None,
    untold: Collection[str],
    now: datetime,
) -> Mapping[Service, Backlog]:
    """Return the backlog of every service that can run on the table.

    `cleaned` is what the last completed clean recorded, and `uncleaned` what it left to be cleaned. `groups` are the
    table's file groups as its active timeline shows them (None: not asked for). `untold` are the deletions of
    partitions that the table's catalog does not know.
    """
    done = [i for i in timeline.instants if not i.pending]
    all_commits = [i for i in done if Action(i.action).completed_as in COMMITS]
    commits = [
        i for i in all_commits if i.stands_for is not InstantKind.OTHER
    ]  # a plan that was given up changed nothing
    by_service = {
        Service.CLUSTERING: replace(
            _since(timeline, (Service.CLUSTERING,), commits, _requested),
            small_files=None if groups is None else groups.smaller_than(_small_file(table)),
        ),
        Service.CLEAN: _clean(timeline, commits, cleaned, uncleaned, groups),
        Service.ARCHIVE: Backlog(
            commits=len(all_commits),
            commits_since_request=len(all_commits),
            since=_ended(all_commits[0]) if all_commits else None,
        ),
        Service.ROLLBACK: _dead_writes(table, timeline, now),
        Service.INDEXING: _indexing(table, properties),
        Service.SAVEPOINT: _savepoints(timeline, commits),
        Service.CATALOG_SYNC: _untold([i for i in done if i.time in untold]),
        Service.METADATA_VALIDATION: Backlog(),
        Service.METADATA_REBUILD: Backlog(),
    }
    if properties.partitioned:
        by_service[Service.TTL] = _since(timeline, (Service.TTL,), commits, _requested)
    if properties.merge_on_read:
        by_service |= _of_logs(timeline, commits, properties.layout, groups)
    return by_service


def _clean(
    timeline: Timeline,
    commits: Sequence[Instant],
    cleaned: LastClean | None,
    uncleaned: Uncleaned | None,
    groups: FileGroups | None,
) -> Backlog:
    """Count the commits since the last clean; after a slice of a neglected table's, the commits that the slice left.

    A file goes if the commit that put it out of use is older than all that are kept.
    """
    backlog = _since(timeline, (Service.CLEAN,), commits, _requested, up_to=None if cleaned is None else cleaned.seen)
    if uncleaned is not None:
        backlog = replace(backlog, versions=uncleaned.excess)
    if uncleaned is not None and groups is not None:
        since = (cleaned.retained if cleaned is not None else None) or ""
        going = groups.put_out_of_use(since=since, before=uncleaned.retained_from)
        backlog = replace(backlog, deletes=going.files, deletes_bytes=going.bytes)
    if uncleaned is None or not uncleaned.neglected or backlog.commits >= uncleaned.excess:
        return backlog
    oldest = _ended(uncleaned.commits[0])
    pending = bool(timeline.pending(Service.CLEAN))
    return replace(
        backlog,
        commits=uncleaned.excess,
        commits_since_request=backlog.commits_since_request if pending else uncleaned.excess,
        since=oldest,
        since_request=backlog.since_request if pending else oldest,
    )


def _of_logs(
    timeline: Timeline, commits: Sequence[Instant], layout: Layout, groups: FileGroups | None
) -> Mapping[Service, Backlog]:
    """Return the backlog in log files. A compaction also leaves nothing for a log compaction. A log compaction counts
    as a delta commit for compaction alone.
    """
    deltas = [i for i in commits if Action(i.action).completed_as is Action.DELTACOMMIT]
    ended = _completed if layout is Layout.V2 else _requested
    compaction = _since(timeline, (Service.COMPACTION,), deltas, ended)
    writes = [i for i in deltas if i.stands_for is not Service.LOG_COMPACTION]
    log_compaction = _since(timeline, (Service.COMPACTION, Service.LOG_COMPACTION), writes, ended)
    if groups is not None:
        full, unmerged = groups.fullest, groups.fullest_unmerged
        compaction = replace(
            compaction,
            log_files=full.files,
            log_bytes=full.bytes,
            files=groups.to_merge.files,
            bytes=groups.to_merge.bytes,
            plan_bytes=groups.log_bytes,
            file_groups=groups.merging,
            writes=groups.merging,
        )
        log_compaction = replace(log_compaction, log_files=unmerged.files, log_bytes=unmerged.bytes)
    return {Service.COMPACTION: compaction, Service.LOG_COMPACTION: log_compaction}


def _small_file(table: Table) -> int:
    options = options_of(table, Service.CLUSTERING, ClusteringOptions)
    return _SMALL_FILE if options is None else options.small_file_limit


def _dead_writes(table: Table, timeline: Timeline, now: datetime) -> Backlog:
    """Count the writes that are dead. The backlog begins when the first of them was last known to be alive."""
    table_options = table.options if isinstance(table.options, HudiTableOptions) else HudiTableOptions()
    options = options_of(table, Service.ROLLBACK, RollbackOptions) or RollbackOptions()
    death_times = [
        dead_since(
            write,
            now=now,
            dead_after=table_options.dead_after,
            without_heartbeat_after=options.without_heartbeat_after,
        )
        for write in timeline.writes_in_flight()
    ]
    dead = [since for since in death_times if since is not None]
    return Backlog(commits=len(dead), commits_since_request=len(dead), since=min(dead, default=None))


def _indexing(table: Table, properties: TableProperties) -> Backlog:
    """Count the indexes to build and to drop. A table without a metadata table has none."""
    options = options_of(table, Service.INDEXING, IndexingOptions)
    if options is None or not properties.has_metadata_table:
        return Backlog()
    wanted = to_build(options, properties) + to_drop(options, properties.metadata_partitions)
    return Backlog(commits=len(wanted), commits_since_request=len(wanted))


def _savepoints(timeline: Timeline, commits: Sequence[Instant]) -> Backlog:
    """Count the commits since the last savepoint of Lakewarden. Savepoints of others do not count."""
    ours = [i for i in timeline.instants if i.stands_for is InstantKind.SAVEPOINT and i.author is not None]
    new = [i for i in commits if not ours or i.time > ours[-1].time]
    half = savepoints_in_flight(timeline)
    return Backlog(
        commits=len(new),
        commits_since_request=len(new),
        since=_ended(ours[-1]) if ours else _ended(commits[0]) if commits else None,
        unfinished=f"savepoint {half[0].time} was left unfinished" if half else None,
    )


def _untold(deletions: Sequence[Instant]) -> Backlog:
    """Count the deletions of partitions that the table's catalog does not know."""
    since = min(map(_ended, deletions), default=None)
    return Backlog(commits=len(deletions), commits_since_request=len(deletions), since=since, exact=True)


def _requested(instant: Instant) -> str:
    return instant.time


def _completed(instant: Instant) -> str:
    return instant.completed_time or instant.time


def _since(
    timeline: Timeline,
    services: Sequence[Service],
    commits: Sequence[Instant],
    order: Callable[[Instant], str],
    *,
    up_to: str | None = None,
) -> Backlog:
    """Count the commits that `order` puts after the last completion of the services, and after the last request. Count
    also the rewrites that ended after the last completed service was requested. `up_to` is the newest commit that this
    service has seen, if it says so.
    """
    plans = [i for i in timeline.instants if i.stands_for in services]
    done = [i for i in plans if not i.pending]
    serviced = (up_to or done[-1].time) if done else ""
    last_request = max(serviced, plans[-1].time) if plans and plans[-1].pending else serviced
    first = _ended(commits[0]) if commits else None
    return Backlog(
        commits=sum(order(i) > serviced for i in commits),
        commits_since_request=sum(order(i) > last_request for i in commits),
        since=_ended(done[-1]) if done else first,
        since_request=plans[-1].requested_at if plans else first,
        rewrites=sum(_completed(i) > done[-1].time if done else True for i in _rewrites(timeline)),
    )


def _rewrites(timeline: Timeline) -> Sequence[Instant]:
    return [i for i in timeline.instants if not i.pending and i.stands_for in _REWRITES]


def _ended(instant: Instant) -> datetime:
    """Return when an instant was completed. Layout 1 does not say it, so there it is the time of the request."""
    return instant.completed_at or instant.requested_at


# Whether a table's policies need to know what every commit wrote. Reading that is not free.

_SERVICES = frozenset({Service.CLUSTERING, Service.TTL, Service.CATALOG_SYNC})
"""Clustering avoids what was just written. Ttl tells Lakewarden's deletions from those of a writer by their signature.
Catalog sync tells deletions of partitions from other replacements."""

_TOLD_AHEAD = frozenset({Service.COMPACTION, Service.CLEAN})


def needs_commits(table: Table) -> bool:
    """Whether one of the table's policies depends on what its commits wrote, and not only on how many there were. A
    table that is not acted on is shown what its services would do, so it needs them for that.
    """
    if table.mode is not Mode.ACT and not _TOLD_AHEAD.isdisjoint(table.policies):
        return True
    return not _SERVICES.isdisjoint(table.policies) or any(p.trigger.counts_files() for p in table.policies.values())
