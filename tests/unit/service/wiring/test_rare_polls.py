"""A table is polled rarely while hooks announce each commit of its writers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lakewarden.planners.model.table import Mode, Table
from lakewarden.service.rules.cadence import LATE_SECONDS
from tests.support.daemon.daemon_harness import TRIPS, DaemonHarness

MINUTE = timedelta(minutes=1)


def every(harness: DaemonHarness, *, location: str = "s3://lake/trips") -> timedelta:
    """Return how often the table would be polled if it lay there."""
    status = harness.status.table(TRIPS)
    assert status is not None
    table: Table = replace(status.table, location=location)
    return harness.status._statuses._poller.interval(table)


def announced(harness: DaemonHarness, commits: int) -> None:
    for _ in range(commits):
        harness.write(1)
        harness.for_a_while(timedelta(seconds=2))


def test_polls_are_rare_once_hooks_arrive_and_come_back_when_they_stop(tmp_path: Path) -> None:
    """A commit without a hook is found by a poll, and brings the setting of the table back."""
    harness = DaemonHarness(tmp_path, mode=Mode.PLAN)
    harness.for_a_while(timedelta(seconds=5))
    poll = harness.status.tables()[0].table.poll
    assert every(harness) == poll
    announced(harness, 4)
    assert every(harness) == max(poll, MINUTE)

    harness.lake.write()
    harness.for_a_while(2 * MINUTE + timedelta(seconds=LATE_SECONDS))
    assert every(harness) == poll
    announced(harness, 4)
    assert every(harness) == max(poll, MINUTE)


def test_polls_of_a_local_table_stay_as_they_are(tmp_path: Path) -> None:
    """They cost nothing."""
    harness = DaemonHarness(tmp_path, mode=Mode.PLAN)
    announced(harness, 5)
    status = harness.status.tables()[0]
    assert status.polled_every == status.table.poll == every(harness, location="/lake/trips")
