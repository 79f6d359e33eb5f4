"""What holds services back from a Paimon table, and what a person should know although nothing is held back. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.needs import NeedFacts
from lakewarden.planners.formats.paimon.catalogs.settings import keeps_commits_apart
from lakewarden.planners.formats.paimon.metadata.heads import run_of
from lakewarden.planners.formats.paimon.metadata.history import MOST
from lakewarden.planners.formats.paimon.metadata.snapshots import CommitKind, Snapshot
from lakewarden.planners.formats.paimon.options.core_options import STRICT_MODE, BucketMode, CoreOptions
from lakewarden.planners.formats.paimon.options.table_options import own_options
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import Blocker
from lakewarden.planners.settings import format_duration, shown

_COMPACTION = frozenset({Service.COMPACTION})
_CLEAN = frozenset({Service.CLEAN})
_ORPHANS = frozenset({Service.ORPHANS})
_TTL = frozenset({Service.TTL})
_MARKING = frozenset({Service.PARTITION_COMMIT})
_ARCHIVE = frozenset({Service.ARCHIVE})
_SERVICES = _COMPACTION | _CLEAN | _ORPHANS | _TTL | _MARKING | _ARCHIVE
_S3 = "s3://"
_MARKED_BY = ("success-file", "http-report")
"""What may be done with a partition that is done. Flink's jobs send the report themselves."""

_BY_PAIMON = "let jobs of Paimon itself serve the table, and set mode: observe"
_SERVED = (BucketMode.FIXED, BucketMode.DYNAMIC, BucketMode.UNAWARE)


def blockers(table: Table, facts: NeedFacts) -> tuple[Blocker, ...]:
    """Return what holds services of a table back."""
    found = (
        _of_store(table),
        _of_hint(table, facts),
        _of_features(facts),
        _of_switch(facts),
        _of_strict_mode(facts),
        _of_others(table, facts),
        _of_expiry(facts),
        _of_places(facts),
        _of_changelogs(facts),
        _of_metastore(facts),
        _of_actions(facts),
    )
    return tuple(blocker for blocker in found if blocker is not None)


def _of_store(table: Table) -> Blocker | None:
    """Paimon commits by a rename. Object stores have none. On S3 a lock of the catalog keeps commits apart. No other
    store was tried.
    """
    location = table.location
    if keeps_commits_apart(table.catalog, location):
        return None
    return Blocker(
        code="unsupported_store",
        reason=f"Paimon commits to {location} by renaming a file, which may replace another commit: Lakewarden can "
        "exclude that on local and mounted disks, and on S3 under the lock of a Hive or JDBC catalog, and deletes "
        "nothing elsewhere either",
        remedy=_BY_PAIMON
        if not location.startswith(_S3)
        else f"name the table by such a catalog, with which its writers commit too (lock.enabled); else {_BY_PAIMON}",
        services=_SERVICES,
    )


def _of_hint(table: Table, facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table that Paimon's own clients cannot read, or read as it once was."""
    newest = facts.history.newest
    if newest is None or facts.misleading_hint is None:
        return None
    hint = f"{table.location}/snapshot/LATEST"
    return Blocker(
        code="pointer_behind",
        reason=f"{hint} names snapshot {facts.misleading_hint}, and the newest one is {newest.id}: Paimon's clients "
        "believe the hint, because there is no snapshot of the next number",
        remedy=f"write {newest.id} into {hint}, or delete the file",
        services=_SERVICES,
    )


def _of_features(facts: NeedFacts) -> Blocker | None:
    """Return the features with which Lakewarden leaves a table alone."""
    options, newest = facts.schema.options, facts.history.newest
    used = [*_features(facts), *(f"the option {key}" for key in options.unserved)]
    if options.bucket_mode not in _SERVED:
        used.append(str(options.bucket_mode))
    if options.deletion_vectors and not facts.schema.has_key:
        used.append("deletion vectors without a primary key")
    fields = (*(newest.unknown if newest else ()), *facts.unknown_fields)
    if fields:
        used.append(f"metadata of a release after 1.3 ({', '.join(fields)})")
    if not used:
        return None
    return Blocker(
        code="unsupported_table",
        reason=f"the table uses {', '.join(used)}, with which Lakewarden leaves it alone",
        remedy=_BY_PAIMON,
        services=_SERVICES,
    )


def _of_switch(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with writers that may compact."""
    if facts.schema.options.write_only:
        return None
    return Blocker(
        code="writers_do_it",
        reason="write-only is false: the writers compact the table themselves, and fail by a second compaction, or if "
        "their files are dropped",
        remedy="to hand the compaction over, set write-only=true on the table and restart its writers (lakewarden "
        "writer-options prints it); otherwise remove the service",
        services=_COMPACTION | _TTL,
    )


def _of_strict_mode(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with writers that fail after a compaction or an overwrite by another commit user.

    A writer begins at the safe snapshot of the option, and fails if a snapshot after it has expired. With -1 it begins
    at its own first commit (`FileStoreCommitImpl.tryCommitOnce` of Paimon 1.3.1).
    """
    safe = facts.schema.options.safe_snapshot
    if safe is None:
        return None
    return Blocker(
        code="unsupported_table",
        reason=f"the table uses the option {STRICT_MODE}: a commit of its writers fails after each compaction or "
        "overwrite of another commit user" + (", and if a later snapshot has expired" if safe >= 0 else ""),
        remedy="unset the option on the table and restart its writers; otherwise remove the service",
        services=_COMPACTION | _ARCHIVE | _TTL | (_CLEAN if safe >= 0 else frozenset()),
    )


def _of_expiry(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with writers that may expire snapshots by a rule of their own."""
    if facts.schema.options.write_only:
        return None
    return Blocker(
        code="writers_do_it",
        reason="write-only is false: the writers expire the snapshots themselves, by the table's own options",
        remedy="set write-only=true on the table and restart its writers, and give the table a compaction too; "
        "otherwise remove the service",
        services=_CLEAN,
    )


def _of_places(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with files in other folders than those in which Lakewarden looks for them."""
    used = [f"the option {key}" for key in facts.schema.options.scattered]
    if not used:
        return None
    return Blocker(
        code="unsupported_table",
        reason=f"the table uses {', '.join(used)}, with which Lakewarden deletes nothing",
        remedy="let Paimon's own expire_snapshots and remove_orphan_files run, and remove the service; or unset the "
        "options",
        services=_CLEAN | _ORPHANS,
    )


def _of_changelogs(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with changelogs that outlive their snapshots. Orphans reads those."""
    left = facts.references.changelogs
    if not facts.schema.options.keeps_changelogs:
        return _of_changelogs_left(left) if left else None
    return Blocker(
        code="unsupported_table",
        reason="the table uses changelogs that outlive their snapshots (changelog.num-retained.*, "
        "changelog.time-retained), with which clean deletes nothing",
        remedy="let Paimon's own expire_snapshots run, and remove the service; or unset the options",
        services=_CLEAN,
    )


def _of_changelogs_left(left: Sequence[int]) -> Blocker:
    """Return the blocker of a table on which an option that is unset by now has left changelogs.

    Only `ExpireChangelogImpl.expireAll` of Paimon 1.3.1 deletes the newest of them, and only Flink has a procedure for
    it.
    """
    return Blocker(
        code="unsupported_table",
        reason=f"changelogs {left[0]} to {left[-1]} have outlived their snapshots, with which clean deletes "
        "nothing, and no option of the table keeps them any more",
        remedy="delete them by Flink: CALL sys.expire_changelogs(`table` => 'DATABASE.TABLE', delete_all => true)",
        services=_CLEAN,
    )


def _of_others(table: Table, facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table in which another program has just compacted."""
    left_alone_for = own_options(table).left_alone_for
    since = facts.now - left_alone_for
    collisions = [
        snapshot for snapshot in facts.history.snapshots if snapshot.at > since and _collides(snapshot, facts)
    ]
    if not collisions:
        return None
    last = collisions[-1]
    what = "compacted" if last.kind is CommitKind.COMPACT else "replaced files"
    return Blocker(
        code="writers_do_it",
        reason=f"the commit user {last.user[:80]} {what} in snapshot {last.id}, and would fail by a second compaction: "
        f"the table is left alone for {format_duration(left_alone_for)} (left_alone_for)",
        remedy="end that job, or restart it with write-only=true: a running job keeps the options with which it began",
        services=_COMPACTION | _TTL,
    )


def _collides(snapshot: Snapshot, facts: NeedFacts) -> bool:
    """Whether the commit is of a kind that fails if a compaction takes its files away."""
    if run_of(snapshot.user) is not None:
        return False
    if snapshot.kind is CommitKind.COMPACT:
        return snapshot.id not in facts.since.idle
    return snapshot.kind is CommitKind.OVERWRITE and not facts.schema.has_key


def _of_metastore(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with partitions that a catalog lists too."""
    if not facts.schema.options.partitions.in_metastore:
        return None
    return Blocker(
        code="unsupported_table",
        reason="a catalog lists the partitions of the table (metastore.partitioned-table), and Lakewarden would not "
        "drop them there",
        remedy="let Paimon's own partition.expiration-time drop them, and remove the service",
        services=_TTL,
    )


def _of_actions(facts: NeedFacts) -> Blocker | None:
    """Return the blocker of a table with an action for finished partitions that needs a metastore, or a class."""
    refused = [action for action in facts.schema.options.partitions.mark_done if action not in _MARKED_BY]
    if not refused:
        return None
    return Blocker(
        code="unsupported_table",
        reason=f"partition.mark-done-action of the table is {', '.join(map(shown, refused))}: Lakewarden writes a "
        "success file, and neither tells a metastore nor runs a class",
        remedy="set partition.mark-done-action=success-file, or remove services.partition_commit",
        services=_MARKING,
    )


def warnings(facts: NeedFacts) -> Iterator[str]:
    """Yield what was not understood, what was not read, and what does not fit."""
    history, newest = facts.history, facts.history.newest
    for snapshot in history.snapshots[-1:]:
        if snapshot.unknown:
            yield (
                f"snapshot-{snapshot.id} has fields that Lakewarden does not know ({', '.join(snapshot.unknown)}): a "
                "newer release of Paimon wrote it, and what they mean is not observed"
            )
    if not history.is_whole and len(history.snapshots) >= MOST:
        yield f"of {history.count} snapshots the newest {MOST} were read: older commits are not counted"
    if history.remains:
        yield (
            f"{len(history.remains)} snapshots lie below a gap ({history.remains[0]} to {history.remains[-1]}): an "
            "expiry that was cut off left them, and the files that they name may be gone"
        )
    if used := list(_features(facts)):
        yield f"the table uses {', '.join(used)}: a client of Paimon 0.9.0 that commits to it would lose that"
    yield from _of_tags(facts.schema.options)
    records, evolves = (None if newest is None else newest.records), facts.schema.options.data_evolution
    if newest is not None and records is not None and not evolves and records != facts.holdings.rows:
        yield (
            f"snapshot-{newest.id} counts {records} rows, and its manifests count {facts.holdings.rows}: a manifest "
            "is not what its writer wrote, or its writer counted wrongly"
        )


def _of_tags(options: CoreOptions) -> Iterator[str]:
    """Yield what no commit does any more about tags (`AbstractFileStoreTable.newCommit` of Paimon 1.3.1)."""
    if options.write_only and options.creates_tags:
        yield (
            "with write-only=true no commit creates the tags of tag.automatic-creation: schedule CALL "
            "sys.trigger_tag_automatic_creation, more often than a clean lets snapshots expire. It expires tags too"
        )
    elif options.write_only and options.expires_tags:
        yield (
            "with write-only=true no commit deletes the tags that tag.default-time-retained gives an end: schedule "
            "CALL sys.expire_tags, else their files stay"
        )


def _features(facts: NeedFacts) -> Iterator[str]:
    """Yield the features that Paimon 0.9.0 does not know: it would drop them from the manifests that it writes."""
    options = facts.schema.options
    features = {
        "row tracking": options.row_tracking or facts.has_row_ids,
        "data evolution": options.data_evolution,
        "files outside the table's folder": options.external_paths or bool(facts.external),
    }
    yield from (name for name, is_used in features.items() if is_used)


# Rows that were committed and that readers do not see before a compaction. Pure.


def first_hidden(facts: NeedFacts) -> Snapshot | None:
    """Return the first write after the newest compaction: as far as commits tell, its rows are hidden. None if there is
    none, or if readers of this table see level 0.
    """
    if not facts.schema.options.waits_for_compaction or not facts.holdings.level_0:
        return None
    compacted = _compacted(facts)
    snapshots = facts.history.snapshots
    return next(
        (snapshot for snapshot in snapshots if (compacted is None or snapshot.id > compacted.id) and snapshot.is_write),
        None,
    )


def unseen_since(facts: NeedFacts) -> Mapping[Service, datetime]:
    """Return since when rows are hidden: since then at least. If there are files of level 0 from before the newest
    compaction, which has left buckets out, the time of that compaction counts.
    """
    if not facts.schema.options.waits_for_compaction or not facts.holdings.level_0:
        return {}
    since = first_hidden(facts) or _compacted(facts)
    return {} if since is None else {Service.COMPACTION: since.at}


def _compacted(facts: NeedFacts) -> Snapshot | None:
    compactions = (
        snapshot
        for snapshot in facts.history.snapshots
        if snapshot.is_compaction and snapshot.id not in facts.since.idle
    )
    return max(compactions, key=lambda compaction: compaction.id, default=None)
