"""No commit of Lakewarden comes between main and a branch that is about to become main."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from lakewarden.planners.formats.iceberg.metadata.metadata import MAIN, Ref, Snapshot, TableMetadata
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.writers.activity import kept_off_for_branches
from lakewarden.planners.model.decision import NotDue
from lakewarden.planners.model.instant import Service
from tests.support.iceberg.iceberg_values import a_metadata, a_snapshot
from tests.support.values import NOW

HOUR = timedelta(hours=1)


def branched(main: int, branch: int, *snapshots: Snapshot, is_branch: bool = True) -> TableMetadata:
    """Return a table with a branch `audit` besides main, by the ids of their heads."""
    refs = tuple(
        Ref(name=name, is_branch=name == MAIN or is_branch, snapshot=at)
        for name, at in ((MAIN, main), ("audit", branch))
    )
    return a_metadata(*snapshots, current=main, refs=refs)


def kept(table: TableMetadata, **options: str) -> dict[Service, NotDue]:
    """Return the services that are kept off main now."""
    return dict(kept_off_for_branches(table, IcebergTableOptions(**options), NOW))


A_LINE = (a_snapshot(1, ago=9 * HOUR), a_snapshot(2, ago=8 * HOUR), a_snapshot(3, ago=3 * HOUR))


def test_nothing_of_ours_is_committed_to_main_while_a_branch_can_still_become_it() -> None:
    """After its audit, the branch is published by a fast-forward. Clean adds no snapshot and continues."""
    found = kept(branched(1, 3, *A_LINE))

    assert set(found) == {Service.COMPACTION, Service.CLUSTERING, Service.ARCHIVE}
    assert found[Service.COMPACTION].again_at == NOW + 21 * HOUR
    assert found[Service.COMPACTION].reason == (
        "branch 'audit' is ahead of main, last written at 09:00:00 UTC: after a commit of Lakewarden fast_forward "
        "could not publish it. It is waited for as long as 1d"
    )


@pytest.mark.parametrize("version", [1, 2])
def test_a_branch_that_is_not_ahead_blocks_no_commit(version: int) -> None:
    """A branch cannot become main after main has moved on. A branch at main or behind it is published. A tag never
    becomes main.
    """
    line = A_LINE if version == 2 else tuple(replace(one, sequence=0) for one in A_LINE)
    aside = replace(line[2], parent=1)

    assert kept(branched(1, 3, *line))
    assert kept(branched(3, 3, *line)) == {}
    assert kept(branched(3, 1, *line)) == {}
    assert kept(branched(2, 3, line[0], line[1], aside)) == {}
    assert kept(branched(1, 3, *line, is_branch=False)) == {}


def test_a_branch_that_was_given_up_is_not_waited_for() -> None:
    """The wait is as long as its writer may be away."""
    assert kept(branched(1, 3, *A_LINE), longest_outage="4h")
    assert kept(branched(1, 3, *A_LINE), longest_outage="3h") == {}
