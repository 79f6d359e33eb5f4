"""What has piled up for each service, or why there is nothing for it to do now (docs/iceberg.md). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.iceberg.backlog.clustered import is_worth_clustering, unordered_since, untouchable
from lakewarden.planners.formats.iceberg.backlog.hindrances import why_files_stay
from lakewarden.planners.formats.iceberg.backlog.holdings import Holdings
from lakewarden.planners.formats.iceberg.deletion.expiry import expirable
from lakewarden.planners.formats.iceberg.metadata.manifests import Manifest
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.metadata.timeline import instant_of, stands_for
from lakewarden.planners.formats.iceberg.options.ages import age_of_orphans
from lakewarden.planners.formats.iceberg.options.service_options import (
    ArchiveOptions,
    CleanOptions,
    ClusteringOptions,
    CompactionOptions,
    OrphansOptions,
)
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.groups import (
    Choice,
    ContradictoryThresholdsError,
    Group,
    choose,
    file_groups,
    thresholds,
)
from lakewarden.planners.formats.iceberg.writers.cold import left_alone, never_quiet, on_the_clock, quiet_time
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import Backlog, Hindrance, WriterActivity
from lakewarden.planners.settings import Settings, format_duration

_Options = TypeVar("_Options", bound=Settings)

_MANIFEST_TARGET = ("commit.manifest.target-size-bytes", 8 * 2**20)
_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_VERSIONS = "write.metadata.previous-versions-max"


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What one service has to do: a backlog, why it rests, or what it is hindered by. `notes` are for people,
    `changes_at` is when time alone changes the need (None: never).
    """

    backlog: Backlog | None = None
    rest: NotDue | None = None
    hindrance: Hindrance | None = None
    notes: tuple[str, ...] = ()
    changes_at: datetime | None = None

    def resting(self, why: NotDue) -> Need:
        """Return the need of a service that is kept off although there is something to do."""
        return replace(self, backlog=None, rest=why)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sight:
    """All that a need is told from: the table's settings, its current snapshot as it was read at `now`, and when main's
    `writes` were made, of which the timeline may not show all.
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
    """When the first of the files may go that the last run of orphans has seen, and left."""

    @property
    def main(self) -> Sequence[Snapshot]:
        """Return main's snapshots, the newest first."""
        return self.metadata.ancestors(self.metadata.current)

    def settings(self, service: Service, kind: type[_Options]) -> _Options:
        """Return the options of a service; those by default where the table has no policy for it."""
        policy = self.table.policies.get(service)
        options = None if policy is None else policy.options
        return options if isinstance(options, kind) else kind()


def needs(sight: Sight) -> Mapping[Service, Need]:
    """Return the need of every service that has a meaning for the table."""
    if sight.metadata.current_snapshot is None:
        nothing = Need(rest=NotDue(reason="nothing was ever committed to the table"))
        return dict.fromkeys(_NEEDS, nothing)
    return {service: need(sight) for service, need in _NEEDS.items()}


def _compaction(sight: Sight) -> Need:
    options = sight.settings(Service.COMPACTION, CompactionOptions)
    try:
        rules = thresholds(options, sight.metadata.properties)
    except ContradictoryThresholdsError as wrong:
        return Need(hindrance=_refused(Service.COMPACTION, wrong))
    groups = file_groups(sight.holdings.files, sight.metadata, rules, sight.holdings.tallies, keeps=sight.keeps)
    if not groups:
        return Need(rest=NotDue(reason=_all_well(sight.holdings)))
    hot = left_alone(sight.activity, sight.options, sight.now)
    choice = choose(groups, hot, max_files=options.max_files, max_bytes=options.max_bytes)
    return _rewrite(sight, Service.COMPACTION, choice, hot, _changed(sight, hot))


def _clustering(sight: Sight) -> Need:
    """Return what clustering has to do: groups with files that are not in order, of partitions to which nothing was
    written for a while.
    """
    if Service.CLUSTERING not in sight.table.policies:
        return Need()
    options = sight.settings(Service.CLUSTERING, ClusteringOptions)
    try:
        rules = thresholds(options, sight.metadata.properties, everything=True)
    except ContradictoryThresholdsError as wrong:
        return Need(hindrance=_refused(Service.CLUSTERING, wrong))
    unordered, by_key = unordered_since(sight.metadata), {one.key: one for one in sight.holdings.files}
    groups = [
        group
        for group in file_groups(sight.holdings.files, sight.metadata, rules, keeps=sight.keeps)
        if is_worth_clustering((by_key[key] for key in group.keys), unordered, rules)
    ]
    if not groups:
        return Need(rest=NotDue(reason="in no partition is there enough that a clustering has not put in order yet"))
    avoided = untouchable(sight.activity, sight.options, options, sight.now)
    choice = choose(groups, avoided, max_files=options.max_files, max_bytes=options.max_bytes)
    why = f"were written to within {format_duration(options.untouched_for)}, or by MERGE, UPDATE or DELETE lately"
    return _rewrite(sight, Service.CLUSTERING, choice, avoided, why)


def _refused(service: Service, wrong: ContradictoryThresholdsError) -> Hindrance:
    remedy = f"set target_file_size, min_file_size and max_file_size in the options of its {service} policy anew"
    return Hindrance(services=frozenset({service}), reason=str(wrong), remedy=remedy)


def _rewrite(sight: Sight, service: Service, choice: Choice, avoided: Mapping[str, datetime], why: str) -> Need:
    """Return what a rewrite has to do of what was chosen for it, and when time alone lets it do more."""
    next_at = min((_free_at(group, avoided) for group in choice.left_alone), default=None)
    kept_off = _left_alone(choice, why)
    if not choice.takes:
        return Need(rest=NotDue(reason=kept_off, again_at=next_at), changes_at=next_at)
    groups = (*choice.takes, *choice.left)
    backlog = replace(
        _since(sight, service, left=_was_left(groups, service, sight)),
        files=sum(group.files for group in groups),
        bytes=sum(group.bytes for group in groups),
        file_groups=len(groups),
        small_files=sum(group.files for group in groups if group.files > 1),
    )
    notes = [kept_off] if choice.left_alone else []
    kept = sum(group.files for group in groups if group.spec in sight.keeps)
    if kept:
        since = format_duration(sight.options.flink_restores)
        notes.append(
            f"{kept} files of older partition specs are rewritten within these: within {since} a job deleted by "
            "equality that may have been started with one of them, and reaches no file of another"
        )
    return Need(backlog=backlog, notes=tuple(notes), changes_at=next_at)


def _free_at(group: Group, avoided: Mapping[str, datetime]) -> datetime:
    """Return when the last of a group's partitions may be taken."""
    return max(avoided[partition] for partition in group.partitions if partition in avoided)


def _left_alone(choice: Choice, why: str) -> str:
    partitions = {one for group in (*choice.takes, *choice.left, *choice.left_alone) for one in group.partitions}
    alone = {one for group in choice.left_alone for one in group.partitions}
    if partitions == {""}:
        return f"the table's files {why}, and are left alone"
    return f"{len(alone)} of {len(partitions)} partitions that a rewrite would take {why}, and are left alone"


def _changed(sight: Sight, hot: Mapping[str, datetime]) -> str:
    """Return what was done to the partitions that are left alone, and whether there is any hope for them."""
    touched = sight.activity.updated or {}
    last = max((touch.at for touch in touched.values() if touch.updates), default=sight.now)
    said = f"were changed by MERGE, UPDATE or DELETE, last at {on_the_clock(last, sight.now)}"
    if any(partition in hot for partition, touch in touched.items() if not touch.updates):
        said += ", or are new"
    if not never_quiet(sight.activity, sight.options):
        return said
    quiet = format_duration(quiet_time(sight.activity, sight.options))
    return f"{said} (so regularly that it is never quiet for {quiet}: see quiet_intervals and quiet_for)"


def _was_left(groups: Iterable[Group], service: Service, sight: Sight) -> bool:
    """Whether one of the groups was there already when the service last completed, which then took other ones."""
    last = next((one.sequence for one in sight.main if stands_for(one) is service), 0)
    return any(group.newest < last for group in groups)


def _all_well(held: Holdings) -> str:
    return (
        f"Iceberg's planner would rewrite nothing of {held.data_files} data files and {held.delete_files} delete files"
    )


def _clean(sight: Sight) -> Need:
    try:
        expiry = expirable(sight.metadata, sight.settings(Service.CLEAN, CleanOptions), sight.options, sight.now)
    except PermanentError as wrong:
        remedy = "or set max_snapshot_age and min_snapshots_to_keep in the options of its clean policy"
        hindrance = Hindrance(services=frozenset({Service.CLEAN}), reason=str(wrong), remedy=remedy)
        return Need(hindrance=hindrance)
    if not expiry.ids:
        reason = f"none of {len(sight.metadata.snapshots)} snapshots may expire yet"
        rest = NotDue(reason=reason, again_at=expiry.next_at)
        return Need(rest=rest, notes=expiry.kept, changes_at=expiry.next_at)
    backlog = _since(sight, Service.CLEAN)
    return Need(
        backlog=backlog, notes=(_expiring(len(expiry.ids), expiry.left), *expiry.kept), changes_at=expiry.next_at
    )


def _expiring(snapshots: int, left: int) -> str:
    then = f", and {left} more in later runs" if left else ""
    return f"{'1 snapshot' if snapshots == 1 else f'{snapshots} snapshots'} may expire now{then}"


def _orphans(sight: Sight) -> Need:
    options = sight.settings(Service.ORPHANS, OrphansOptions)
    note = (
        f"a file is an orphan that is older than {age_of_orphans(options, sight.options)} and that no snapshot knows, "
        f"in two runs at least {format_duration(options.unknown_for)} apart"
    )
    backlog, until = _since(sight, Service.ORPHANS), sight.orphans_wait_until
    if until is None:
        return Need(backlog=backlog, notes=(note,))
    if until <= sight.now:  # they count as a commit does: nobody may write to the table any more
        backlog = replace(backlog, commits=max(1, backlog.commits))
    waiting = f"files that the last run has seen may go from {on_the_clock(until, sight.now)} on"
    return Need(backlog=backlog, notes=(note, waiting), changes_at=until)


def _archive(sight: Sight) -> Need:
    options, properties = sight.settings(Service.ARCHIVE, ArchiveOptions), sight.metadata.properties
    small = small_manifests(sight.manifests, sight.metadata)
    why = None if options.metadata_versions is None else why_files_stay(sight.metadata)
    if why is not None:  # each commit would delete metadata files
        remedy = f"remove metadata_versions from the options of its archive policy, or {why.remedy}"
        return Need(hindrance=Hindrance(services=frozenset({Service.ARCHIVE}), reason=why.reason, remedy=remedy))
    notes = []
    if len(small) >= options.small_manifests:
        notes.append(f"{len(small)} small manifests of {len(sight.manifests)} are written anew")
    if options.metadata_versions is not None and not bounds_versions(properties, options.metadata_versions):
        notes.append(f"{_VERSIONS} is set to {options.metadata_versions}, and {_DELETE_AFTER_COMMIT} to true")
    if not notes:
        reason = f"{len(small)} of {options.small_manifests} small manifests that are worth a rewrite"
        return Need(rest=NotDue(reason=reason))
    return Need(backlog=_since(sight, Service.ARCHIVE), notes=tuple(notes))


def small_manifests(manifests: Iterable[Manifest], metadata: TableMetadata) -> Sequence[Manifest]:
    """Return the manifests of the current partition spec with less than half of the size that writers aim at: the
    rewrite of manifests takes no others along. Of data and of deletes, which are not mixed, those that are more.
    """
    key, default = _MANIFEST_TARGET
    stated = counted(metadata.properties.get(key, ""))
    target = default if stated is None else stated
    small = [one for one in manifests if one.spec == metadata.default_spec and one.length < target / 2]
    of_deletes = [one for one in small if one.of_deletes]
    of_data = [one for one in small if not one.of_deletes]
    return max(of_data, of_deletes, key=len)


def bounds_versions(properties: Mapping[str, str], versions: int) -> bool:
    """Whether every commit already deletes the metadata files that are older than so many versions."""
    return properties.get(_DELETE_AFTER_COMMIT, "").lower() == "true" and properties.get(_VERSIONS) == str(versions)


def _since(sight: Sight, service: Service, *, left: bool = False) -> Backlog:
    """Count the writes since the service last completed as a whole; all that are known, where it has `left` work then.

    A pending plan asks for what was written until then.
    """
    plans = [i for i in sight.timeline.instants if i.stands_for is service and not i.partial]
    plans = plans or [*_no_longer_shown(sight, service)]
    done = [] if left else [i for i in plans if not i.pending]
    asked = plans[-1:] if not left else []
    first = min(sight.writes, default=None)
    return Backlog(
        commits=_after(sight.writes, done),
        commits_since_request=_after(sight.writes, asked),
        since=_ended(done[-1]) if done else first,
        since_request=asked[-1].requested_at if asked else first,
    )


def _no_longer_shown(sight: Sight, service: Service) -> Iterator[Instant]:
    """Yield the last commit of a service that lies so far back that the timeline does not show it."""
    for one in sight.main:
        if one.operation == "replace" and stands_for(one) is service:
            instant = instant_of(one, of_main=True)
            if not instant.partial:
                yield instant
                return


def _after(writes: Sequence[datetime], services: Sequence[Instant]) -> int:
    return sum(map(services[-1].requested_at.__lt__, writes)) if services else len(writes)


def _ended(instant: Instant) -> datetime:
    return instant.completed_at or instant.requested_at


_NEEDS: Mapping[Service, Callable[[Sight], Need]] = {
    Service.COMPACTION: _compaction,
    Service.CLUSTERING: _clustering,
    Service.CLEAN: _clean,
    Service.ORPHANS: _orphans,
    Service.ARCHIVE: _archive,
}
