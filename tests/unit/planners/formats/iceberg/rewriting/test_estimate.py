"""The figures of the dry run of a rewrite of all files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.estimate import commits_of, estimate, groups_of_a_commit
from lakewarden.planners.formats.iceberg.rewriting.groups import Group


def group(number: int, *, files: int = 10, size: int = 100) -> Group:
    """Return a group of a partition of its own."""
    return Group(partitions=frozenset({f"p={number}"}), files=files, bytes=size, opened=files, oldest=1, keys=(number,))


def test_runs_and_commits_follow_the_limits_of_a_run() -> None:
    """Five groups of ten files need three runs of at most twenty files. One partition is left alone."""
    groups = [group(number) for number in range(6)]

    found = estimate(groups, {"p=3"}, RewriteOptions(max_files=20))

    assert (found.runs, found.commits) == (3, 3)
    assert [one.partitions for one in found.left_alone] == [frozenset({"p=3"})]
    assert len(found.takes) == 2


def test_with_partial_progress_a_run_has_as_many_commits_as_it_makes() -> None:
    """Eleven groups in at most ten commits are six commits of two groups, because all commits have the same size."""
    options = RewriteOptions(partial_progress=True, max_commits=10)

    assert (groups_of_a_commit(11, options), commits_of(11, options)) == (2, 6)
    assert estimate([group(number) for number in range(11)], (), options).commits == 6
    assert commits_of(11, RewriteOptions()) == 1


def test_nothing_that_may_be_rewritten_now_is_no_run() -> None:
    """All partitions are left alone. The figures say that, too."""
    found = estimate([group(1)], {"p=1"}, RewriteOptions())

    assert (found.runs, found.commits, found.takes, len(found.left_alone)) == (0, 0, (), 1)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 500)), max_size=30), st.integers(30, 60))
def test_the_runs_take_every_group_once(sizes: list[tuple[int, int]], most: int) -> None:
    """Each estimated run is one that the choice of a real run makes."""
    groups = [group(number, files=files, size=size) for number, (files, size) in enumerate(sizes)]
    options = RewriteOptions(max_files=most, max_bytes="1000B")

    runs, left, taken = 0, tuple(groups), 0
    while left:
        choice = choose(left, (), options)
        runs, left, taken = runs + 1, choice.left, taken + len(choice.takes)

    assert estimate(groups, (), options).runs == runs
    assert taken == len(groups)
