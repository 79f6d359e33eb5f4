"""The cause of a failed Iceberg commit, by the text of its exception."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lakewarden.demo.writers.orders import Batch, Ending
from live.iceberg.blame import caused_by_us
from tests.support.daemon.run_bodies import NOON, a_run_told


def failed(message: str) -> Batch:
    return Batch(
        number=1,
        rows=(),
        begun=NOON,
        ending=Ending.FAILED,
        answered=NOON + timedelta(seconds=2),
        message=message,
    )


NEAR = a_run_told(ended_at=NOON + timedelta(seconds=1))


@pytest.mark.parametrize(
    ("message", "ours"),
    [
        ("ValidationException: Cannot commit, missing data files: [data/a.parquet]", True),
        ("org.apache.iceberg.exceptions.NotFoundException: File does not exist: data/a.parquet", True),
        ("ValidationException: Found conflicting files that can contain records matching true", False),
        ("ValidationException: Found new conflicting delete files that can apply to records", False),
        ("CommitFailedException: Table has been updated by another process", True),
        ("a failure that was never seen before", True),
    ],
)
def test_with_a_run_of_ours_at_the_same_time(message: str, ours: bool) -> None:
    """If files are gone, Lakewarden has caused it. If files are new, another writer has. A text that says neither
    counts as caused by Lakewarden.
    """
    assert bool(caused_by_us([failed(message)], [NEAR])) is ours


def test_what_says_neither_is_not_ours_where_nothing_of_ours_ran() -> None:
    """If files are gone, Lakewarden has still caused it: no writer of the suite replaces files."""
    assert not caused_by_us([failed("CommitFailedException: Table has been updated by another process")], [])
    assert caused_by_us([failed("Cannot commit, missing data files: [data/a.parquet]")], [])
