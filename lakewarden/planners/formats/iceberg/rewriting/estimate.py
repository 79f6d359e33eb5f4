"""What a rewrite of all files would do: the figures of its dry run. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.groups import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """How many `runs` and `commits` the groups need that may be rewritten now, and the first run of them (`takes`).
    `left_alone` are the groups of partitions that are left alone because of a writer.
    """

    runs: int
    commits: int
    takes: Sequence[Group]
    left_alone: Sequence[Group]


def estimate(groups: Sequence[Group], avoided: Collection[str], options: RewriteOptions) -> Estimate:
    """Return what a rewrite of all these groups would take, if the writers stayed where they are."""
    first = choice = choose(groups, avoided, options)
    runs = commits = 0
    while choice.takes:
        runs += 1
        commits += commits_of(len(choice.takes), options)
        choice = choose(choice.left, avoided, options)
    return Estimate(runs=runs, commits=commits, takes=first.takes, left_alone=first.left_alone)


def commits_of(groups: int, options: RewriteOptions) -> int:
    """Return in how many commits a run makes so many file groups."""
    if not options.partial_progress:
        return 1
    return -(-groups // groups_of_a_commit(groups, options))


def groups_of_a_commit(groups: int, options: RewriteOptions) -> int:
    """Return how many of a run's file groups one commit has, if the options ask for several commits."""
    return max(1, -(-groups // options.max_commits))
