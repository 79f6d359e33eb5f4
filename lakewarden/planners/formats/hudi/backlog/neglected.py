"""What a table needs that nobody has looked after: many small steps, for a first one would be its whole history.

A table's first clean looks through everything, and deletes in one plan what thousands of commits left behind. Hudi
bounds no first clean (docs/hudi.md), but it keeps what a retention says: one that is far longer than asked for, and
shorter with each clean, makes slices of it. Each slice goes on from what the last one retained. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.hudi.backlog.archiving import BATCH
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action
from lakewarden.planners.formats.hudi.options.service_options import ArchiveOptions, CleanOptions, CleanPolicy
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline

RETAINED_BY_HUDI = 10
"""`hoodie.clean.commits.retained` as Hudi sets it."""

HOURS_BY_HUDI = 24
"""`hoodie.clean.hours.retained` as Hudi sets it."""

FILES_AT_A_TIME = 100_000
"""What a slice deletes at most where the table's budget says nothing."""

_ROOM = 0.8
"""A slice is chosen by what its commits wrote: some of it was written over by then, and not all of it goes."""

_MOST_READ = 1000
"""So many commits' metadata is read to choose a slice."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncleaned:
    """The completed commits that the next clean looks at, the oldest first, of which the newest `kept` stay readable.
    With more to be cleaned than `slices_from`, and than are kept, it is done in slices.
    """

    commits: tuple[Instant, ...]
    kept: int
    slices_from: int | None

    @property
    def excess(self) -> int:
        """How many of them no reader is promised any more."""
        return max(0, len(self.commits) - self.kept)

    @property
    def neglected(self) -> bool:
        """Whether they are too many for one clean."""
        return self.slices_from is not None and self.excess > max(self.slices_from, self.kept)


def uncleaned(
    timeline: Timeline, options: CleanOptions, *, retained: str | None, now: datetime, needed: str | None = None
) -> Uncleaned | None:
    """Return what is to be cleaned since the last clean, which `retained` everything from that commit on (None: there
    was none). All are kept from the commit on that a reader has `needed`. None under a policy that counts versions and
    not commits.
    """
    done = [i for i in timeline.instants if not i.pending and Action(i.action).completed_as in COMMITS]
    commits = tuple(i for i in done if retained is None or i.time >= retained)
    match CleanPolicy(options.policy):
        case CleanPolicy.KEEP_LATEST_COMMITS:
            kept = options.commits_retained or RETAINED_BY_HUDI
        case CleanPolicy.KEEP_LATEST_BY_HOURS:
            since = now - timedelta(hours=options.hours_retained or HOURS_BY_HUDI)
            kept = sum(i.requested_at >= since for i in commits)
        case _:
            return None
    if needed is not None:
        kept = max(kept, sum(i.time >= needed for i in commits))
    return Uncleaned(commits=commits, kept=kept, slices_from=options.slices_from_commits)


def first_slice(found: Uncleaned, files_of: Callable[[Instant], int], *, most: int) -> int:
    """Return by how many commits a clean had better go on, so that it deletes at most `most` files: at least one."""
    files = 0
    for place, commit in enumerate(found.commits[: min(found.excess, _MOST_READ)]):
        files += files_of(commit)
        if files > most * _ROOM:
            return max(1, place)
    return max(1, min(found.excess, _MOST_READ))


class Bisection:
    """Finds a slice whose plan is there, and fits: a smaller one where it does not, a larger one where Hudi finds
    nothing to delete in it.
    """

    def __init__(self, begin: int, *, all_of_it: int) -> None:
        self._empty = 0
        self._too_large = all_of_it + 1
        self.commits = min(begin, all_of_it)

    def was_empty(self) -> bool:
        """Take a larger slice; False if there is none."""
        self._empty = self.commits
        return self._next(min(self.commits * 2, self._too_large - 1))

    def was_too_large(self) -> bool:
        """Take a smaller slice; False if there is none."""
        self._too_large = self.commits
        return self._next((self._empty + self.commits) // 2)

    def _next(self, commits: int) -> bool:
        if not self._empty < commits < self._too_large:
            return False
        self.commits = commits
        return True


def uncleaned_of(
    table: Table, timeline: Timeline, *, retained: str | None, now: datetime, needed: str | None = None
) -> Uncleaned | None:
    """Return the same by the table's policy; None where it has none for clean."""
    policy = table.policies.get(Service.CLEAN)
    options = None if policy is None else policy.options
    if policy is None or not isinstance(options, CleanOptions | None):
        return None
    return uncleaned(timeline, options or CleanOptions(), retained=retained, now=now, needed=needed)


def recovery_notes(table: Table, timeline: Timeline, found: Uncleaned | None) -> Mapping[Service, tuple[str, ...]]:
    """Return, for people, how a neglected table is going to be recovered: which service in which steps."""
    notes: dict[Service, tuple[str, ...]] = {}
    if found is not None and found.neglected:
        most = f"{table.budget.files or FILES_AT_A_TIME:,}"
        notes[Service.CLEAN] = (
            f"{found.excess:,} commits are to be cleaned: they are taken in slices, the oldest first, each of at most "
            f"{most} files, with a retention that comes down to the newest {found.kept:,} commits step by step",
        )
    archive = table.policies.get(Service.ARCHIVE)
    options = archive.options if archive is not None and isinstance(archive.options, ArchiveOptions) else None
    commits = sum(not i.pending and Action(i.action).completed_as in COMMITS for i in timeline.instants)
    if options is not None and commits > options.keep_max_commits + BATCH:
        behind = ", no further than the clean has come" if Service.CLEAN in table.policies else ""
        notes[Service.ARCHIVE] = (
            f"{commits:,} commits are on the timeline: they leave it in batches of at most {BATCH:,}{behind}, and the "
            "table's lock is free between two of them",
        )
    return notes
