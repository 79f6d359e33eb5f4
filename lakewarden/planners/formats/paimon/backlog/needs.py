"""What a Paimon table needs of each service, in the terms of deciding. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from lakewarden.planners.formats.paimon.backlog.compactions import Holdings, SinceCompaction
from lakewarden.planners.formats.paimon.backlog.manifests_read import Changes
from lakewarden.planners.formats.paimon.deletion.orphans_beside import LastRun
from lakewarden.planners.formats.paimon.deletion.retention import Retention, Rule, beyond_retention
from lakewarden.planners.formats.paimon.metadata.history import History, References
from lakewarden.planners.formats.paimon.metadata.manifests import IndexFiles
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.writers import CommitUser
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import Backlog


@dataclass(frozen=True, kw_only=True, slots=True)
class NeedFacts:
    """All that an observation has found, at `now`. `external` files lie outside the table's folder. `changes` are None
    if no service asks for them. `mergeable` of the manifests are small, or delete files.
    """

    schema: Schema
    history: History
    holdings: Holdings
    index: IndexFiles
    since: SinceCompaction
    references: References
    users: tuple[CommitUser, ...]
    now: datetime
    manifests: int = 0
    mergeable: int = 0
    external: int = 0
    has_row_ids: bool = False
    unknown_fields: tuple[str, ...] = ()
    changes: Changes | None = None
    misleading_hint: int | None = None

    def retention(self, rule: Rule) -> Retention:
        """Return what a rule says of the table's snapshots."""
        return beyond_retention(self.history, self.references, self.users, rule, self.now)


@dataclass(frozen=True, kw_only=True, slots=True)
class Needs:
    """What a view says of the services (`TableView` explains the fields), and when time alone changes any of it."""

    backlogs: Mapping[Service, Backlog] = field(default_factory=dict)
    at_rest: Mapping[Service, NotDue] = field(default_factory=dict)
    changes_at: datetime | None = None


def needs_of(facts: NeedFacts, rule: Rule, *, minor: bool = False, last_orphans: LastRun | None = None) -> Needs:
    """Return the backlogs of the services, or why they rest. Snapshots expire by `rule`. `minor`: any compaction
    counts, not only a full one. `last_orphans` is the last run of orphans.
    """
    if facts.history.newest is None:
        rest = NotDue(reason="nothing was ever committed to the table")
        return Needs(at_rest=dict.fromkeys((Service.COMPACTION, Service.CLEAN, Service.ORPHANS, Service.ARCHIVE), rest))
    retention = facts.retention(rule)
    backlogs, at_rest = dict[Service, Backlog](), dict[Service, NotDue]()
    if facts.holdings.pending:
        backlogs[Service.COMPACTION] = _compaction(facts, minor=minor)
    else:
        at_rest[Service.COMPACTION] = NotDue(reason=_all_compacted(facts))
    if retention.beyond:
        backlogs[Service.CLEAN] = Backlog(
            commits=retention.beyond,
            commits_since_request=retention.beyond,
            versions=retention.beyond,
            exact=facts.history.is_whole,
        )
    else:
        held = "" if retention.held_by is None else f": {retention.held_by} holds them"
        reason = f"none of {facts.history.count} snapshots may expire{held}"
        at_rest[Service.CLEAN] = NotDue(reason=reason, again_at=retention.next_at)
    backlogs[Service.ORPHANS] = _orphans(facts, last_orphans)
    if facts.mergeable > 1:
        backlogs[Service.ARCHIVE] = Backlog(commits=facts.mergeable, commits_since_request=facts.mergeable, exact=True)
    else:
        at_rest[Service.ARCHIVE] = NotDue(
            reason=f"{facts.mergeable} of {facts.manifests} manifests are small or delete files: there is nothing to "
            "merge"
        )
    waits = None if last_orphans is None else last_orphans.waits_until
    later = [at for at in (retention.next_at, waits) if at is not None and at > facts.now]
    return Needs(backlogs=backlogs, at_rest=at_rest, changes_at=min(later, default=None))


def _orphans(facts: NeedFacts, last: LastRun | None) -> Backlog:
    """Count the writes since the last run. Unknown files that may go by now count as one: the table may have no more
    writers.
    """
    writes = [snapshot.at for snapshot in facts.history.snapshots if snapshot.is_write]
    if last is None:
        return Backlog(
            commits=len(writes), commits_since_request=len(writes), since=min(writes, default=None), exact=True
        )
    commits = sum(at > last.at for at in writes)
    if last.waits_until is not None and last.waits_until <= facts.now:
        commits = max(1, commits)
    return Backlog(commits=commits, commits_since_request=commits, since=last.at, since_request=last.at, exact=True)


def _compaction(facts: NeedFacts, *, minor: bool) -> Backlog:
    held, since, fullest = facts.holdings, facts.since, facts.holdings.fullest
    keyed = facts.schema.has_key
    begun = since.any_since if minor else since.since
    return Backlog(
        commits=since.any_commits if minor else since.commits,
        commits_since_request=since.any_commits,
        since=begun,
        since_request=begun,
        files=held.pending_files,
        bytes=held.pending_bytes,
        file_groups=held.pending,
        log_files=(0 if fullest is None else fullest.level_0) if keyed else None,
        log_bytes=(0 if fullest is None else fullest.level_0_bytes) if keyed else None,
        small_files=held.pending_small,
    )


def _all_compacted(facts: NeedFacts) -> str:
    held = facts.holdings
    if facts.schema.has_key:
        return f"each of {held.buckets} buckets is one sorted run: there is nothing to merge"
    least = facts.schema.options.small_files
    return f"no partition has {least} small files (compaction.min.file-num) of {held.files} files"
