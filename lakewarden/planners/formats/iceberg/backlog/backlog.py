"""The backlog of each service, or why it has nothing to do now (docs/iceberg.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile
from typing import TypeVar

from lakewarden.planners.decoding.json_stream import counted
from lakewarden.planners.formats.iceberg.backlog.blockers import ROW_LINEAGE, UNKNOWN_TO_SPARK
from lakewarden.planners.formats.iceberg.backlog.clustering import is_worth_clustering, ordered_by, untouchable
from lakewarden.planners.formats.iceberg.backlog.memo import Holdings
from lakewarden.planners.formats.iceberg.deletion.expiry import Expiry, expirable
from lakewarden.planners.formats.iceberg.deletion.reachable import NoSuchBranchError
from lakewarden.planners.formats.iceberg.deletion.refs import kind_of
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import has_statistics, instant_of, stands_for
from lakewarden.planners.formats.iceberg.options.service_options import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    OrphansOptions,
    RewriteOptions,
    age_of_orphans,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import Choice, choose
from lakewarden.planners.formats.iceberg.rewriting.groups import Group, expected_files, file_groups
from lakewarden.planners.formats.iceberg.rewriting.selection import (
    ContradictoryThresholdsError,
    Thresholds,
    UnknownFieldError,
    selection,
    thresholds,
)
from lakewarden.planners.formats.iceberg.writers.cold import never_quiet, on_the_clock, quiet_time
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Backlog, Blocker, WriterActivity
from lakewarden.planners.settings import Settings, format_duration

_Options = TypeVar("_Options", bound=Settings)

_MANIFEST_TARGET = ("commit.manifest.target-size-bytes", 8 * 2**20)


@dataclass(frozen=True, kw_only=True, slots=True)
class ServiceNeed:
    """What one service has to do: its backlog, or why it rests, or what blocks it. `notes` are for people. `changes_at`
    is the moment at which time alone changes the need. None means never.
    """

    backlog: Backlog | None = None
    rest: NotDue | None = None
    blocker: Blocker | None = None
    notes: tuple[str, ...] = ()
    changes_at: datetime | None = None

    def resting(self, why: NotDue) -> ServiceNeed:
        """Return the need of a service that must wait although it has something to do."""
        return replace(self, backlog=None, rest=why)


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedFacts:
    """The facts that a need is computed from: the table's settings, and its current snapshot as it was read at `now`.
    `writes` are the times of the writes on main. The timeline may not show all of them.
    """

    table: Table
    options: IcebergTableOptions
    metadata: TableMetadata
    holdings: Holdings
    manifests: Sequence[Manifest]
    activity: WriterActivity
    timeline: Timeline
    writes: Sequence[datetime]
    now: datetime
    keeps: frozenset[int] = frozenset()
    """The old partition specs in which rewritten files stay (`kept_specs`)."""
    orphans_wait_until: datetime | None = None
    """When orphans may delete the first of the files that its last run has seen and left."""

    others: Mapping[str, str] = field(default_factory=dict)
    """What the last run of orphans has found of others in the table's folder, by folder."""

    def settings(self, service: Service, kind: type[_Options]) -> _Options:
        """Return the options of a service. If the table has no policy for it, return the defaults."""
        policy = self.table.policies.get(service)
        options = None if policy is None else policy.options
        return options if isinstance(options, kind) else kind()


def needs(facts: NeedFacts) -> Mapping[Service, ServiceNeed]:
    """Return the need of every service that can run on the table."""
    if facts.metadata.current_snapshot is None:
        nothing = ServiceNeed(rest=NotDue(reason="nothing was ever committed to the table"))
        return dict.fromkeys(_NEEDS, nothing)
    return {service: need(facts) for service, need in _NEEDS.items()}


def _compaction(facts: NeedFacts) -> ServiceNeed:
    options = facts.settings(Service.COMPACTION, CompactionOptions)
    try:
        rules = thresholds(options, facts.metadata.properties)
        may = selection(options, facts.metadata)
    except (ContradictoryThresholdsError, UnknownFieldError) as wrong:
        return ServiceNeed(blocker=_refused(Service.COMPACTION, wrong))
    holdings = facts.holdings
    groups = file_groups(holdings.files, facts.metadata, rules, holdings.tallies, keeps=facts.keeps, may=may)
    if not groups:
        return ServiceNeed(rest=NotDue(reason=_all_well(holdings) + _of_these(options)))
    hot = untouchable(facts.activity, facts.options, options, facts.now)
    choice = choose(groups, hot, options)
    why = _written(options) if options.untouched_for else _changed(facts, hot)
    return _rewrite(facts, Service.COMPACTION, choice, hot, why, options=options, rules=rules)


def _clustering(facts: NeedFacts) -> ServiceNeed:
    """Return what clustering has to do: the file groups that are not in order, in partitions without recent writes."""
    if Service.CLUSTERING not in facts.table.policies:
        return ServiceNeed()
    options = facts.settings(Service.CLUSTERING, ClusteringOptions)
    if not (facts.metadata.sort_order or options.sort_order or options.zorder):
        return ServiceNeed(blocker=_WITHOUT_ORDER)
    try:
        rules = thresholds(options, facts.metadata.properties, everything=True)
        may = selection(options, facts.metadata)
    except (ContradictoryThresholdsError, UnknownFieldError) as wrong:
        return ServiceNeed(blocker=_refused(Service.CLUSTERING, wrong))
    ordered, by_key = ordered_by(facts.metadata), {file.key: file for file in facts.holdings.files}
    groups = [
        group
        for group in file_groups(facts.holdings.files, facts.metadata, rules, keeps=facts.keeps, may=may)
        if is_worth_clustering((by_key[key] for key in group.keys), ordered, rules)
    ]
    if not groups:
        reason = f"in no partition is there enough that a clustering has not put in order yet{_of_these(options)}"
        return ServiceNeed(rest=NotDue(reason=reason))
    avoided = untouchable(facts.activity, facts.options, options, facts.now)
    choice = choose(groups, avoided, options)
    return _rewrite(facts, Service.CLUSTERING, choice, avoided, _written(options), options=options, rules=rules)


_WITHOUT_ORDER = Blocker(
    services=frozenset({Service.CLUSTERING}),
    code="order_missing",
    reason="neither the table nor its clustering policy has an order",
    remedy=(
        "set sort_order or zorder in the options of its clustering policy, or give the table an order (ALTER TABLE ... "
        "WRITE ORDERED BY ...)"
    ),
)


def _written(options: RewriteOptions) -> str:
    return f"were written to within {format_duration(options.untouched_for)}, or by MERGE, UPDATE or DELETE lately"


def _of_these(options: RewriteOptions) -> str:
    """Return in words which files a rewrite considers, if it does not consider all."""
    return "" if options.where is None else f"; it takes only files of partitions where {options.where}"


def _refused(service: Service, wrong: ContradictoryThresholdsError | UnknownFieldError) -> Blocker:
    settings = "where" if isinstance(wrong, UnknownFieldError) else "target_file_size, min_file_size and max_file_size"
    remedy = f"set {settings} in the options of its {service} policy again"
    return Blocker(code="settings_refused", services=frozenset({service}), reason=str(wrong), remedy=remedy)


def _rewrite(
    facts: NeedFacts,
    service: Service,
    choice: Choice,
    avoided: Mapping[str, datetime],
    why: str,
    *,
    options: RewriteOptions,
    rules: Thresholds,
) -> ServiceNeed:
    """Return what a rewrite has to do with the file groups that were chosen for it, and when time alone gives it more
    to do.
    """
    next_at = min((_free_at(group, avoided) for group in choice.left_alone), default=None)
    kept_off = _left_alone(choice, why)
    if not choice.takes:
        return ServiceNeed(rest=NotDue(reason=kept_off, again_at=next_at), changes_at=next_at)
    groups = (*choice.takes, *choice.left)
    backlog = replace(
        _since(facts, service, left=_was_left(groups, service, facts)),
        files=sum(group.files for group in groups),
        bytes=sum(group.bytes for group in groups),
        file_groups=len(groups),
        small_files=sum(group.files for group in groups if group.files > 1),
        writes=sum(expected_files(group.bytes, rules) for group in groups),
    )
    notes = [kept_off] if choice.left_alone else []
    if limits := _of_these(options):
        notes.append(limits.removeprefix("; "))
    kept = sum(group.files for group in groups if group.spec in facts.keeps)
    if kept:
        since = format_duration(facts.options.flink_restores)
        did = (
            "wrote that may delete by equality, because the schema has identifier fields. It"
            if facts.metadata.has_identifier
            else "deleted by equality that"
        )
        notes.append(
            f"{kept} files of older partition specs are rewritten within these: within {since} a job {did} may have "
            "been started with one of them, and reaches no file of another"
        )
    return ServiceNeed(backlog=backlog, notes=tuple(notes), changes_at=next_at)


def _free_at(group: Group, avoided: Mapping[str, datetime]) -> datetime:
    """Return the moment from which a rewrite may take all partitions of a group."""
    return max(avoided[partition] for partition in group.partitions if partition in avoided)


def _left_alone(choice: Choice, why: str) -> str:
    partitions = {
        partition for group in (*choice.takes, *choice.left, *choice.left_alone) for partition in group.partitions
    }
    alone = {partition for group in choice.left_alone for partition in group.partitions}
    if partitions == {""}:
        return f"the table's files {why}, and are left alone"
    return f"{len(alone)} of {len(partitions)} partitions that a rewrite would take {why}, and are left alone"


def _changed(facts: NeedFacts, hot: Mapping[str, datetime]) -> str:
    """Return in words what changed the partitions that are left alone. If the changes are so regular that the
    partitions are never quiet, the text says so.
    """
    touched = facts.activity.updated or {}
    last = max((touch.at for touch in touched.values() if touch.updates), default=facts.now)
    text = f"were changed by MERGE, UPDATE or DELETE, last at {on_the_clock(last, facts.now)}"
    if any(partition in hot for partition, touch in touched.items() if not touch.updates):
        text += ", or are new"
    if not never_quiet(facts.activity, facts.options):
        return text
    quiet = format_duration(quiet_time(facts.activity, facts.options))
    return f"{text} (so regularly that it is never quiet for {quiet}: see quiet_intervals and quiet_for)"


def _was_left(groups: Iterable[Group], service: Service, facts: NeedFacts) -> bool:
    """Whether one of the groups was there already when the service last completed. That run took other groups."""
    last = next((snapshot.sequence for snapshot in facts.metadata.maintenance() if stands_for(snapshot) is service), 0)
    return any(group.newest < last for group in groups)


def _all_well(held: Holdings) -> str:
    return (
        f"Iceberg's planner would rewrite nothing of {held.data_files} data files and {held.delete_files} delete files"
    )


def _clean(facts: NeedFacts) -> ServiceNeed:
    options = facts.settings(Service.CLEAN, CleanOptions)
    try:
        expiry = expirable(facts.metadata, options, facts.options, facts.now)
    except NoSuchBranchError as missing:
        blocker = Blocker(
            code="settings_refused", services=frozenset({Service.CLEAN}), reason=missing.reason, remedy=missing.remedy
        )
        return ServiceNeed(blocker=blocker)
    except PermanentError as wrong:
        remedy = "or set max_snapshot_age and min_snapshots_to_keep in the options of its clean policy"
        blocker = Blocker(
            code="settings_refused", services=frozenset({Service.CLEAN}), reason=str(wrong), remedy=remedy
        )
        return ServiceNeed(blocker=blocker)
    if not expiry.ids and not expiry.refs:
        reason = f"none of {len(facts.metadata.snapshots)} snapshots may expire yet"
        rest = NotDue(reason=reason, again_at=expiry.next_at)
        return ServiceNeed(rest=rest, notes=expiry.kept, changes_at=expiry.next_at)
    notes = (*_expiring(expiry, facts), *expiry.kept)
    backlog = _expired(_since(facts, Service.CLEAN), facts.metadata, expiry)
    return ServiceNeed(backlog=backlog, notes=notes, changes_at=expiry.next_at)


def _expired(backlog: Backlog, metadata: TableMetadata, expiry: Expiry) -> Backlog:
    """Return a backlog with what goes with the snapshots that may expire, by the summaries of their children.

    A child removed these files, so no snapshot that stays has them, unless a branch or a tag keeps an older one.
    """
    ids = set(expiry.ids)
    children = [snapshot for snapshot in metadata.snapshots if snapshot.parent in ids]
    return replace(
        backlog,
        versions=len(ids) + expiry.left,
        deletes=sum(child.count("deleted-data-files") + child.count("removed-delete-files") for child in children),
        deletes_bytes=sum(child.count("removed-files-size") for child in children),
    )


def _expiring(expiry: Expiry, facts: NeedFacts) -> Iterator[str]:
    snapshots = len(expiry.ids)
    if snapshots:
        then = f", and {expiry.left} more in later runs" if expiry.left else ""
        yield f"{'1 snapshot' if snapshots == 1 else f'{snapshots} snapshots'} may expire now{then}"
        goes = frozenset(expiry.ids)
        line = takewhile(lambda snapshot: snapshot.id not in goes, facts.metadata.ancestors(facts.metadata.current))
        for oldest in list(line)[-1:]:
            yield (
                "a stream or an incremental reader fails afterwards if it has not read main up to the snapshot of "
                f"{on_the_clock(oldest.at, facts.now)} ({oldest.id}), unless it is declared (options.readers)"
            )
    for ref in expiry.refs:
        yield f"{kind_of(ref)} of snapshot {ref.snapshot} may expire now: its max-ref-age-ms is over"


def _orphans(facts: NeedFacts) -> ServiceNeed:
    options = facts.settings(Service.ORPHANS, OrphansOptions)
    notes = (
        f"a file is an orphan that is older than {age_of_orphans(options, facts.options)} and that no snapshot knows, "
        f"in two runs at least {format_duration(options.unknown_for)} apart",
        *_of_others(facts.others),
    )
    backlog, until = _since(facts, Service.ORPHANS), facts.orphans_wait_until
    if until is None:
        return ServiceNeed(backlog=backlog, notes=notes)
    if until <= facts.now:  # they count as a commit does, because the table may have no more writers
        backlog = replace(backlog, commits=max(1, backlog.commits))
    waiting = f"files that the last run has seen may go from {on_the_clock(until, facts.now)} on"
    return ServiceNeed(backlog=backlog, notes=(*notes, waiting), changes_at=until)


def _of_others(others: Mapping[str, str]) -> Iterator[str]:
    if others:
        places = ", ".join(f"{what} in {folder or 'the folder itself'}" for folder, what in others.items())
        yield f"left alone below the table's folder, because no writer of this table could have made it: {places}"


def _table_stats(facts: NeedFacts) -> ServiceNeed:
    """Return whether the current data has no statistics yet. Rewrites do not change the data."""
    if Service.TABLE_STATS not in facts.table.policies:
        return ServiceNeed()
    head = facts.metadata.current
    if head is not None and has_statistics(facts.metadata, head):
        return ServiceNeed(rest=NotDue(reason=f"the current snapshot {head} has its statistics"))
    backlog = _since(facts, Service.TABLE_STATS)
    if not backlog.commits:
        return ServiceNeed(rest=NotDue(reason="nothing was written since the last statistics"))
    return ServiceNeed(backlog=backlog)


def _archive(facts: NeedFacts) -> ServiceNeed:
    options = facts.settings(Service.ARCHIVE, ArchiveOptions)
    small = small_manifests(facts.manifests, facts.metadata)
    if len(small) >= options.small_manifests:
        note = f"{len(small)} small manifests of {len(facts.manifests)} are rewritten"
        return ServiceNeed(backlog=_since(facts, Service.ARCHIVE), notes=(note,))
    reason = f"{len(small)} of {options.small_manifests} small manifests that are worth a rewrite"
    if facts.metadata.format_version >= ROW_LINEAGE:
        reason += "; those of data stay, because Iceberg's rewrite would give the rows of a version 3 table new ids"
    if foreign := sorted(facts.metadata.types & UNKNOWN_TO_SPARK):
        reason = (
            f"manifests are not rewritten: Spark 3.5 cannot read those of a table with columns of type {foreign[0]}"
        )
    return ServiceNeed(rest=NotDue(reason=reason))


def small_manifests(manifests: Iterable[Manifest], metadata: TableMetadata) -> Sequence[Manifest]:
    """Return the manifests of the current partition spec that are smaller than half of the size that writers aim at.
    Iceberg's rewrite of manifests takes only those. Manifests of data files and of delete files are not mixed. Return
    the kind that has more of them. Return none if a column has a type that Spark cannot read: Iceberg's rewrite reads
    the bounds of each column through Spark (run with `time`). From format version 3 on, manifests of data stay: the
    rewrite of 1.11.0 gives their rows new `_row_id`s (run).
    """
    if metadata.types & UNKNOWN_TO_SPARK:
        return ()
    key, default = _MANIFEST_TARGET
    stated = counted(metadata.properties.get(key, ""))
    target = default if stated is None else stated
    small = [
        manifest for manifest in manifests if manifest.spec == metadata.default_spec and manifest.length < target / 2
    ]
    of_deletes = [manifest for manifest in small if manifest.of_deletes]
    of_data = (
        [manifest for manifest in small if not manifest.of_deletes] if metadata.format_version < ROW_LINEAGE else []
    )
    return max(of_data, of_deletes, key=len)


def _since(facts: NeedFacts, service: Service, *, left: bool = False) -> Backlog:
    """Count the writes since the service last completed. If it has `left` work, count all writes that are known.

    A pending plan covers the writes before it.
    """
    plans = [i for i in facts.timeline.instants if i.stands_for is service and not i.partial]
    plans = plans or [*_no_longer_shown(facts, service)]
    done = [] if left else [i for i in plans if not i.pending]
    requests = plans[-1:] if not left else []
    first = min(facts.writes, default=None)
    return Backlog(
        commits=_after(facts.writes, done),
        commits_since_request=_after(facts.writes, requests),
        since=_ended(done[-1]) if done else first,
        since_request=requests[-1].requested_at if requests else first,
    )


def _no_longer_shown(facts: NeedFacts, service: Service) -> Iterator[Instant]:
    """Yield the last commit of a service if it is so old that the timeline does not show it."""
    for snapshot in facts.metadata.maintenance():
        if stands_for(snapshot) is service:
            instant = instant_of(snapshot, of_main=True)
            if not instant.partial:
                yield instant
                return


def _after(writes: Sequence[datetime], services: Sequence[Instant]) -> int:
    return sum(map(services[-1].requested_at.__lt__, writes)) if services else len(writes)


def _ended(instant: Instant) -> datetime:
    return instant.completed_at or instant.requested_at


_NEEDS: Mapping[Service, Callable[[NeedFacts], ServiceNeed]] = {
    Service.COMPACTION: _compaction,
    Service.CLUSTERING: _clustering,
    Service.CLEAN: _clean,
    Service.ORPHANS: _orphans,
    Service.ARCHIVE: _archive,
    Service.TABLE_STATS: _table_stats,
}
