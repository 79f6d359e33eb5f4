"""Whose fault a failed Iceberg commit is: by the words of its exception."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakewarden.executors.demo.record import Batch, Ending
from lakewarden.service.http.schemas import RunBody
from live.iceberg.blame import caused_by_us

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def failed(message: str) -> Batch:
    return Batch(
        number=1,
        rows=(),
        begun=NOON,
        ending=Ending.FAILED,
        answered=NOON + timedelta(seconds=2),
        message=message,
    )


NEAR = RunBody(
    id="r1",
    table="orders",
    service="compaction",
    state="SUCCEEDED",
    instant=None,
    reason="",
    requested_by="policy",
    step=None,
    epoch=1,
    created_at=NOON,
    started_at=NOON,
    ended_at=NOON + timedelta(seconds=1),
    run_seconds=None,
    waits_for=None,
    outcome=None,
    figures={},
)


@pytest.mark.parametrize(
    ("message", "ours"),
    [
        ("ValidationException: Cannot commit, missing data files: [data/a.parquet]", True),
        ("org.apache.iceberg.exceptions.NotFoundException: File does not exist: data/a.parquet", True),
        ("ValidationException: Found conflicting files that can contain records matching true", False),
        ("ValidationException: Found new conflicting delete files that can apply to records", False),
        ("CommitFailedException: Table has been updated by another process", True),
        ("a failure that nobody has seen before", True),
    ],
)
def test_with_a_run_of_ours_at_the_same_time(message: str, ours: bool) -> None:
    """Files that are gone are our doing, new ones another writer's, and what says neither is ours as well."""
    assert bool(caused_by_us([failed(message)], [NEAR])) is ours


def test_what_says_neither_is_not_ours_where_nothing_of_ours_ran() -> None:
    """Files that are gone stay ours: no writer of the suite replaces any."""
    assert not caused_by_us([failed("CommitFailedException: Table has been updated by another process")], [])
    assert caused_by_us([failed("Cannot commit, missing data files: [data/a.parquet]")], [])
