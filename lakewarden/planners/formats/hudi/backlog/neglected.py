"""The services of a neglected table, in many small steps: a first clean in one step would take its whole history.

A table's first clean looks through everything, and deletes in one plan what thousands of commits left behind. Hudi
does not bound it (docs/hudi.md), but it obeys its retention. A retention that is far longer than the policy's, and
shorter with each clean, divides the work into slices. Each slice continues from what the last one retained. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from lakewarden.planners.formats.hudi.backlog.archiving import BATCH
from lakewarden.planners.formats.hudi.metadata.names import COMMITS, Action
from lakewarden.planners.formats.hudi.options.service_options import (
    HOURS_BY_HUDI,
    RETAINED_BY_HUDI,
    ArchiveOptions,
    CleanOptions,
    CleanPolicy,
    options_of,
)
from lakewarden.planners.model.instant import Instant, Service, Timeline
from lakewarden.planners.model.table import Table

FILES_AT_A_TIME = 100_000
"""The most files that a slice deletes if the table's budget sets no limit."""

_ROOM = 0.8
"""A slice is chosen by what its commits wrote. Some of that was overwritten before, and not all of it goes."""

_MOST_READ = 1000
"""To choose a slice, the metadata of at most so many commits is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Uncleaned:
    """The completed commits that the next clean looks at, oldest first. The newest `kept` of them stay readable. If
    more are to be cleaned than `slices_from`, and than are kept, the clean is done in slices.
    """

    commits: tuple[Instant, ...]
    kept: int
    slices_from: int | None

    @property
    def excess(self) -> int:
        """How many of them need not stay readable any more."""
        return max(0, len(self.commits) - self.kept)

    @property
    def retained_from(self) -> str:
        """Return the time of the oldest of them that stays readable. If none has to, it is later than all."""
        return self.commits[self.excess].time if self.excess < len(self.commits) else "9"

    def since(self, time: str | None) -> int | None:
        """Return how many of them began at the time of one of them, or later. None if there is no commit of that time.

        Hudi counts the commits that a clean keeps, and only on the active timeline.
        """
        times = [commit.time for commit in self.commits]
        return len(times) - times.index(time) if time in times else None

    @property
    def neglected(self) -> bool:
        """Whether they are too many for one clean."""
        return self.slices_from is not None and self.excess > max(self.slices_from, self.kept)


def uncleaned(
    timeline: Timeline, options: CleanOptions, *, retained: str | None, now: datetime, needed: str | None = None
) -> Uncleaned | None:
    """Return what is to be cleaned since the last clean. That clean `retained` all commits from this one on (None:
    there was no clean). All commits from the one that a reader has `needed` are kept. Return None under a policy that
    counts versions instead of commits.
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


def first_slice(uncleaned: Uncleaned, files_of: Callable[[Instant], int], *, most: int) -> int:
    """Return by how many commits a clean should advance to delete at most `most` files. It is at least one."""
    files = 0
    for place, commit in enumerate(uncleaned.commits[: min(uncleaned.excess, _MOST_READ)]):
        files += files_of(commit)
        if files > most * _ROOM:
            return max(1, place)
    return max(1, min(uncleaned.excess, _MOST_READ))


class Bisection:
    """Finds a slice that has a plan and fits. It tries a smaller slice if the plan is too large, and a larger one if
    Hudi finds nothing to delete.
    """

    def __init__(self, begin: int, *, all_of_it: int) -> None:
        self._empty = 0
        self._too_large = all_of_it + 1
        self.commits = min(begin, all_of_it)

    def was_empty(self) -> bool:
        """Take a larger slice. Return False if there is none."""
        self._empty = self.commits
        return self._next(min(self.commits * 2, self._too_large - 1))

    def was_too_large(self) -> bool:
        """Take a smaller slice. Return False if there is none."""
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
    """Return what is to be cleaned by the table's policy; None if it has no policy for clean."""
    if Service.CLEAN not in table.policies:
        return None
    options = options_of(table, Service.CLEAN, CleanOptions) or CleanOptions()
    return uncleaned(timeline, options, retained=retained, now=now, needed=needed)


def recovery_notes(table: Table, timeline: Timeline, uncleaned: Uncleaned | None) -> Mapping[Service, tuple[str, ...]]:
    """Return in words how a neglected table is recovered: by which service in which steps."""
    notes: dict[Service, tuple[str, ...]] = {}
    if uncleaned is not None and uncleaned.neglected:
        most = f"{table.budget.files or FILES_AT_A_TIME:,}"
        notes[Service.CLEAN] = (
            f"{uncleaned.excess:,} commits are to be cleaned, in slices of at most {most} files, the oldest first. The "
            f"retention comes down to the newest {uncleaned.kept:,} commits step by step",
        )
    options = options_of(table, Service.ARCHIVE, ArchiveOptions)
    commits = sum(not i.pending and Action(i.action).completed_as in COMMITS for i in timeline.instants)
    if options is not None and commits > options.keep_max_commits + BATCH:
        behind = ", no further than the clean has come" if Service.CLEAN in table.policies else ""
        notes[Service.ARCHIVE] = (
            f"{commits:,} commits are on the timeline: they leave it in batches of at most {BATCH:,}{behind}. The "
            "table's lock is free between two batches",
        )
    return notes
