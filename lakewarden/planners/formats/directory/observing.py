"""One look at a directory: its folders, what each partition is, and what time alone will change."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import blake2b
from heapq import nlargest

from lakewarden.planners.formats.directory import compacting
from lakewarden.planners.formats.directory.committing import blockers, metastore_state, needs_of, rules_of
from lakewarden.planners.formats.directory.compacting import compaction_needs, compaction_rules
from lakewarden.planners.formats.directory.expiring import age_of_orphans, orphans_needs, term_of, ttl_needs
from lakewarden.planners.formats.directory.listing.folders import (
    EntryKind,
    Folder,
    kind_of,
    log_of_a_sink,
    table_above,
    table_in,
)
from lakewarden.planners.formats.directory.listing.walk import (
    Kinds,
    Previous,
    Walk,
    above,
    changed_of,
    digest,
    location_of,
    nearest,
)
from lakewarden.planners.formats.directory.metastore import MetastoreLook
from lakewarden.planners.formats.directory.options import (
    CompactionOptions,
    DirectoryTableOptions,
    OrphansOptions,
    PartitionCommitOptions,
    TtlOptions,
    marker_of,
)
from lakewarden.planners.formats.directory.partitions import MOST_SHOWN, shown_path
from lakewarden.planners.formats.directory.writers import moment, usual_interval
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Timeline
from lakewarden.planners.model.printable import printable
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker, ServiceNeeds, TableIdentity, TableView, WriterActivity
from lakewarden.planners.ports import MOST_FILES, DeepListing, Observation, Storage
from lakewarden.planners.settings import shown

# What a directory has in place of a timeline: the newest change, marker and part in progress of its partitions.

_NEWEST = 100
_LONGEST_PATH = 500


def timeline_of(folders: Mapping[str, Folder]) -> Timeline:
    """Return the newest instants, at most a hundred. Nothing can be told of one that is not there."""
    newest = nlargest(_NEWEST, (event for path, folder in folders.items() for event in _happened(path, folder)))
    return Timeline(instants=tuple(_instant(*event) for event in reversed(newest)), oldest_leave_first=False)


def _happened(path: str, folder: Folder) -> Iterator[tuple[float, str, str]]:
    """Yield when something happened in a partition, what, and the partition."""
    if folder.files:
        yield folder.changed_at, "write", path
    if folder.staged:
        yield folder.staged_at, "part_in_progress", path
    if folder.marker is not None:
        yield folder.marker, Service.PARTITION_COMMIT.value, path


def _instant(at: float, action: str, path: str) -> Instant:
    time = moment(at)
    pending = action == "part_in_progress"
    return Instant(
        time=f"{time:%Y%m%dT%H%M%S}.{time.microsecond // 1000:03d}Z {printable(path, most=_LONGEST_PATH) or '.'}",
        action=action,
        stands_for=Service.PARTITION_COMMIT if action == Service.PARTITION_COMMIT else InstantKind.WRITE,
        state=State.INFLIGHT if pending else State.COMPLETED,
        requested_at=time,
        completed_time=None if pending else time.isoformat(),
        completed_at=None if pending else time,
    )


_TICK = timedelta(seconds=2)
"""Two changes within it may leave the time of a folder as it is."""

_ASKED_AGAIN = timedelta(seconds=30)

_WARM = 256
_WARM_WITHOUT_TIMES = 4
"""In a store without folder times each warm folder costs a listing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Memo:
    """What is kept from one look to the next: the folders, those that the token watches, when all of them were looked
    at last, what the metastore listed, the tables of other formats among the folders, and the list of a streaming sink
    in the directory or above it.
    """

    folders: Mapping[str, Folder]
    warm: Sequence[str]
    complete_at: datetime
    metastore: MetastoreLook | None = None
    tables: Mapping[str, str] = field(default_factory=dict)
    log: str | None = None


def table_options(table: Table) -> DirectoryTableOptions:
    """Return what the owner of the table has set, or the defaults."""
    return table.options if isinstance(table.options, DirectoryTableOptions) else DirectoryTableOptions()


def kinds_of(table: Table) -> Kinds:
    """Return what a name stands for in the table."""
    return partial(kind_of, marker=marker_of(table), ignored=table_options(table).ignored)


def looked_at(
    table: Table,
    storage: Storage,
    previous: Memo | None,
    *,
    before: datetime,
    now: datetime,
    heard: Collection[str] = (),
) -> Walk:
    """Return the folders of the table; `before` is when `previous` was taken. All are looked at where it is time, and
    those that hooks have named (`heard`) in any case.

    Raises PermanentError where there is no directory, or one of another format.
    """
    small_below = table.options_of(Service.COMPACTION, CompactionOptions).small_below
    walk = Walk(location=table.location, storage=storage, kinds=kinds_of(table), small_below=small_below)
    options = table_options(table)
    unchanged = (before - _TICK - options.quiet_for).timestamp()
    kept = (
        None
        if previous is None
        else Previous(folders=previous.folders, unchanged_before=unchanged, tables=previous.tables)
    )
    try:
        if kept is None or previous is None or now - previous.complete_at >= options.list_all_every:
            _recognise(table.location, storage, walk.kinds)
            walk.all(kept)
            if isinstance(storage, DeepListing):  # what the token watches is listed as the token lists it
                walk.warm(
                    Previous(folders=walk.folders, unchanged_before=0, tables=walk.tables), warm_folders(walk.folders)
                )
        else:
            walk.warm(kept, {*previous.warm, *(nearest(path, previous.folders) for path in heard)})
    except FileNotFoundError as gone:
        raise _missing(table.location) from gone
    return walk


def _recognise(location: str, storage: Storage, kinds: Kinds) -> None:
    """Raise PermanentError where the folder is missing, empty, or of a format that has metadata."""
    try:
        names = {entry.name for entry in storage.listing(location, most=MOST_FILES)}
    except FileNotFoundError as gone:
        raise _missing(location) from gone
    if (table := table_in(location, names, storage)) is not None:
        raise PermanentError(f"{location} is not a plain directory: it is {table}")
    if (table := table_above(location, storage)) is not None:
        raise PermanentError(f"{location} is not a plain directory: it lies in {table}, which the files belong to")
    if not any(kinds(name) is EntryKind.DATA for name in names):
        raise PermanentError(f"{location} holds no data: there is no file and no folder that readers see")


def _missing(location: str) -> PermanentError:
    return PermanentError(f"{location} holds no directory: there is no folder")


def warm_folders(folders: Mapping[str, Folder]) -> Sequence[str]:
    """Return the folders that the token watches: the partitions that changed last, and the folders above them."""
    most = _WARM if folders.get("", Folder()).changed else _WARM_WITHOUT_TIMES
    newest = nlargest(most, ((folder.staged > 0, folder.changed_at, path) for path, folder in folders.items()))
    paths = {path for _, _, path in newest}
    return sorted(paths.union(*map(above, paths), {""}))


def token_of(location: str, storage: Storage, warm: Sequence[str], walk: Walk | None = None) -> str:
    """Return the token of the warm folders: of their times, or of their listings where the store keeps no times. What
    a walk has seen of them counts, and is not asked for again.
    """
    hasher = blake2b(digest_size=16)
    for path in warm:
        hasher.update(f"{path}\0{_stamp(location, storage, path, walk)}\n".encode(errors="surrogatepass"))
    return hasher.hexdigest()


def _stamp(location: str, storage: Storage, path: str, walk: Walk | None) -> str:
    if walk is not None and (seen := walk.digests.get(path)) is not None:
        return seen
    if walk is not None and (folder := walk.folders.get(path)) is not None and folder.changed:
        return str(folder.changed)
    changed = changed_of(location_of(location, path), storage)
    if changed is not None:
        return str(changed)
    try:
        return digest(storage.listing(location_of(location, path), most=MOST_FILES))
    except FileNotFoundError:
        return ""


def observed(
    table: Table, storage: Storage, previous: Observation | None, *, now: datetime, heard: Collection[str] = ()
) -> Observation:
    """Return the table's view. Hooks have named the folders `heard`.

    An equal token vouches for it until time alone changes what is due, or all folders are to be looked at again; not at
    all if a change is so young that another could hide behind it.
    """
    memo: Memo | None = None if previous is None else previous.memo
    before = now if previous is None else previous.view.observed_at
    walk = looked_at(table, storage, memo, before=before, now=now, heard=heard)
    folders, options = walk.folders, table_options(table)
    is_complete = memo is None or now - memo.complete_at >= options.list_all_every
    complete_at = now if memo is None or is_complete else memo.complete_at
    log = log_of_a_sink(table.location, storage) if memo is None or is_complete else memo.log
    warm = warm_folders(folders)
    token = token_of(table.location, storage, warm, walk)
    usual = usual_interval(folders.values())
    commit = table.options_of(Service.PARTITION_COMMIT, PartitionCommitOptions)
    last_look = None if memo is None else memo.metastore
    if last_look is not None and is_complete:  # an entry may have been led to another place
        last_look = replace(last_look, strangers={})
    there = metastore_state(table.location, options.metastore, commit, folders, last_look)
    needs = needs_of(folders, rules_of(folders, options, commit, now, usual=usual, metastore=there.look), now)
    others = dict(_others(table, storage, folders, usual, now))
    view = TableView(
        identity=TableIdentity(location=table.location, created="directory"),
        name=table.location.rpartition("/")[2],
        kind=needs.amount,
        version="",
        observed_at=now,
        timeline=timeline_of(folders),
        writers=WriterActivity(last_commit_at=needs.last_change),
        backlogs={
            **needs.backlogs,
            **{service: of.backlog for service, of in others.items() if of.backlog is not None},
        },
        at_rest={**needs.at_rest, **{service: of.rest for service, of in others.items() if of.rest is not None}},
        notes={**needs.notes, **{service: of.notes for service, of in others.items() if of.notes}},
        warnings=(*needs.warnings, *_left_out(walk.tables), *_unexplained(folders)),
        blockers=(
            *_unset(table),
            *blockers(table.location, storage, commit),
            *compacting.blockers(table.location, storage, table.options_of(Service.COMPACTION, CompactionOptions), log),
            *((there.blocker,) if there.blocker is not None else ()),
        ),
    )
    changes = (needs.changes_at, *(of.changes_at for of in others.values()), complete_at + options.list_all_every)
    ends = [at for at in changes if at is not None]
    young = now - _TICK
    keep_until = now if any(folders[path].changed > young.timestamp() for path in warm) else min(ends)
    if there.blocker is not None:  # no folder tells that it answers again
        keep_until = min(keep_until, now + _ASKED_AGAIN)
    elif there.look is not None and needs.backlogs:  # no folder tells that the metastore lists them now
        keep_until = now
    return Observation(
        token=token,
        view=view,
        memo=Memo(
            folders=folders, warm=warm, complete_at=complete_at, metastore=there.kept, tables=walk.tables, log=log
        ),
        keep_until=keep_until,
    )


def _others(
    table: Table, storage: Storage, folders: Mapping[str, Folder], usual: float | None, now: datetime
) -> Iterator[tuple[Service, ServiceNeeds]]:
    """Yield what the services besides partition commit have to do, as far as the table has a policy for them."""
    options = table_options(table)
    ours = [service for service in (Service.COMPACTION, Service.TTL, Service.ORPHANS) if service in table.policies]
    chosen = table.options_of(Service.COMPACTION, CompactionOptions)
    left = compacting.unfinished(table.location, storage, chosen) if ours else {}
    # each of them ends what another one has left, if that is no longer configured
    unfinished = {service if service in ours else ours[0]: why for service, why in left.items()}
    if Service.COMPACTION in ours:
        rules = compaction_rules(options, chosen, usual=usual)
        if rules is not None:
            left_over = unfinished.get(Service.COMPACTION)
            yield Service.COMPACTION, compaction_needs(folders, rules, now, unfinished=left_over)
    if Service.TTL in ours:
        term = term_of(options, table.options_of(Service.TTL, TtlOptions), usual=usual)
        if term is not None:
            yield Service.TTL, ttl_needs(folders, term, now, unfinished=unfinished.get(Service.TTL))
    if Service.ORPHANS in ours:
        age = age_of_orphans(options, table.options_of(Service.ORPHANS, OrphansOptions))
        if age is not None:
            yield Service.ORPHANS, orphans_needs(folders, age, now, unfinished=unfinished.get(Service.ORPHANS))


def _left_out(tables: Mapping[str, str]) -> Iterator[str]:
    for path, table in sorted(tables.items())[:MOST_SHOWN]:
        more = f" (one of {len(tables)} such folders)" if len(tables) > 1 else ""
        yield (
            f"{shown_path(path)}{more} is left alone, with all below it, because it is {table}. Name a directory "
            "without it, and register a table under its own format"
        )


def _unexplained(folders: Mapping[str, Folder]) -> Iterator[str]:
    names = {path: folder.unexplained for path, folder in folders.items() if folder.unexplained}
    for path, name in sorted(names.items())[:MOST_SHOWN]:
        more = f" (one of {len(names)} such folders)" if len(names) > 1 else ""
        yield (
            f"{shown_path(path)}{more} holds {shown(name)}, which may hold parts in progress of any partition below: "
            "none is committed or compacted while it is there. If no writer keeps parts in it, add its name to "
            "options.ignored"
        )


def _unset(table: Table) -> Iterator[Blocker]:
    """Yield a block for each setting without a default that is missing. A daemon refuses such a configuration."""
    found: dict[str, list[Service]] = {}
    if table_options(table).restore_horizon is None:
        found["options.restore_horizon"] = [Service.COMPACTION, Service.ORPHANS]
    if table.options_of(Service.TTL, TtlOptions).retain is None:
        found["services.ttl.options.retain"] = [Service.TTL]
    for key, services in found.items():
        yield Blocker(
            code="setting_missing",
            reason=f"{key} is not set: nothing is touched without it",
            remedy=_WHAT_TO_SET[key],
            services=frozenset(services),
            only_if_configured=True,
        )


_WHAT_TO_SET = {
    "options.restore_horizon": "set it to more than the longest time after which a stopped job is restored, as in 7d, "
    "or to 0s if no job ever is",
    "services.ttl.options.retain": "set how long a partition is kept, as in 90d",
}
