"""Points of debt, measured by a daemon over a fake table."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.planners.model.instant import Service
from lakewarden.service.config.daemon.history import HistorySettings
from lakewarden.service.model.history import GRAINS, Debt, DebtPoint, finest_for, grain_of, points_kept
from lakewarden.service.reporting.debt import DebtSampler, next_minute, points_of
from tests.support.daemon.daemon_harness import COMPACT_AND_CLEAN, TRIPS, DaemonHarness

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


def _sampler(harness: DaemonHarness, settings: HistorySettings | None = None) -> DebtSampler:
    return DebtSampler(harness.status, harness.store, settings or HistorySettings(), replica="a")


def test_a_point_has_what_the_services_of_the_table_have_piled_up(tmp_path: Path) -> None:
    """For the table, and for all tables of the replica."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.write(1)
    harness.for_a_while()

    assert _sampler(harness).sample(NOON) == 2

    backlog = harness.view().backlogs[Service.CLEAN]
    [of_table] = harness.store.debt(TRIPS, since=NOON, until=NOON, grain=1)
    [of_fleet] = harness.store.debt(None, since=NOON, until=NOON, grain=1)
    assert of_table.services[Service.CLEAN].commits == backlog.commits > 0
    assert of_fleet.services == of_table.services
    assert (of_fleet.tables, of_fleet.replica) == (1, "a")


def test_a_table_without_a_view_is_not_measured(tmp_path: Path) -> None:
    """Zero debt would be a wrong figure for a table that was not observed yet. Another replica owns the others."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    assert _sampler(harness).sample(NOON) == 0
    assert harness.store.debt(None, since=NOON, until=NOON, grain=1) == []


def test_what_changes_between_two_points_is_in_the_second(tmp_path: Path) -> None:
    """A measurement is used again only for the same view."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    sampler = _sampler(harness)
    for number in (0, 1):
        harness.write(1)
        harness.for_a_while()
        sampler.sample(NOON + number * HOUR)
    first, second = harness.store.debt(TRIPS, since=NOON, until=NOON + HOUR, grain=60)
    assert second.services[Service.CLEAN].commits == first.services[Service.CLEAN].commits + 1


def test_a_table_of_many_has_points_further_apart(tmp_path: Path) -> None:
    """The store stays bounded. The fleet is measured all the same."""
    harness = DaemonHarness(tmp_path, policies=COMPACT_AND_CLEAN)
    harness.for_a_while()
    sampler = _sampler(harness, HistorySettings(debt_points=1000))
    assert finest_for(1, points=1000, keep=timedelta(days=30)) == 60
    assert sampler.sample(NOON + timedelta(minutes=5)) == 1
    assert sampler.sample(NOON + HOUR) == 2


@pytest.mark.parametrize("tables", [1, 10, 500, 1000, 5000, 10_000, 30_000])
@pytest.mark.parametrize("days", [1, 30])
def test_all_points_together_are_no_more_than_the_setting_says(tables: int, days: int) -> None:
    """However many tables there are."""
    keep = timedelta(days=days)
    assert tables * points_kept(finest_for(tables, points=1_000_000, keep=keep), keep=keep) <= 1_000_000


def test_a_moment_has_the_largest_distance_on_whose_grid_it_lies() -> None:
    """Each distance divides the next one, so a coarse curve has some of the points of a fine one."""
    assert all(later % former == 0 for former, later in itertools.pairwise(GRAINS))
    moments = {"00:00": 1440, "08:00": 480, "04:00": 240, "13:00": 60, "13:05": 5, "13:06": 1}
    for moment, grain in moments.items():
        assert grain_of(datetime.fromisoformat(f"2026-01-01T{moment}:00+00:00")) == grain
    assert grain_of(NOON + timedelta(seconds=1)) is None
    assert next_minute(NOON + timedelta(seconds=1)) == next_minute(NOON) == NOON + timedelta(minutes=1)


def test_the_points_of_replicas_at_one_moment_are_one_point() -> None:
    """Each replica measures the tables that it owns. The oldest pending plan is that of all."""
    ours = DebtPoint(at=NOON, grain=60, replica="a", tables=2, services={Service.CLEAN: Debt(pending=1, oldest=NOON)})
    theirs = DebtPoint(
        at=NOON,
        grain=60,
        replica="b",
        tables=3,
        services={Service.CLEAN: Debt(pending=2, oldest=NOON - HOUR), Service.COMPACTION: Debt(bytes=7)},
    )
    assert points_of([ours, theirs], Service.CLEAN) == [(NOON, 5, Debt(pending=3, oldest=NOON - HOUR))]
    assert points_of([ours, theirs], None) == [(NOON, 5, Debt(pending=3, bytes=7, oldest=NOON - HOUR))]
