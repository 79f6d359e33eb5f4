"""A table is polled rarely while hooks announce each commit of its writers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table
from lakewarden.service.rules.polling import LATE_SECONDS, TRUSTED_AFTER
from tests.support.daemon.daemon_harness import COMPACT, TRIPS, DaemonHarness, prepare

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


def test_the_end_of_a_run_is_no_hook(tmp_path: Path) -> None:
    """It has the table observed, too. Writers that nothing announces stay polled as the table says."""
    harness = DaemonHarness(tmp_path, policies=COMPACT)
    for _ in range(6):
        harness.for_a_while(timedelta(seconds=2))
        prepare(harness.lake)
        harness.until(lambda: harness.lake.log_files == 0 and harness.at_rest())
    assert len(harness.completed(Service.COMPACTION)) >= TRUSTED_AFTER
    assert every(harness) == harness.status.tables()[0].table.poll


def test_polls_of_a_local_table_stay_as_they_are(tmp_path: Path) -> None:
    """They cost nothing."""
    harness = DaemonHarness(tmp_path, mode=Mode.PLAN)
    announced(harness, 5)
    status = harness.status.tables()[0]
    assert status.polled_every == status.table.poll == every(harness, location="/lake/trips")
