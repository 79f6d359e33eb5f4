"""A partition is active while a part is in progress, or within the writer's own rhythm."""

from __future__ import annotations

import json
from array import array
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory import writers
from lakewarden.planners.formats.directory.listing.folders import Folder, usual_interval
from lakewarden.planners.formats.directory.options import DirectoryTableOptions
from lakewarden.planners.formats.directory.writers import active, hints_of
from lakewarden.planners.hooks import At, MalformedHookError
from lakewarden.planners.settings import parse_duration

# Events of object stores name the folders above an object, one of which may be a table.

RECORD = {
    "eventName": "ObjectCreated:CompleteMultipartUpload",
    "s3": {"bucket": {"name": "lake"}, "object": {"key": "landing/clicks/dt%3D2026-03-01/a+b/part-0", "size": 7}},
}
PLACES = [
    "s3://lake/landing/clicks/dt=2026-03-01/a b",
    "s3://lake/landing/clicks/dt=2026-03-01",
    "s3://lake/landing/clicks",
    "s3://lake/landing",
    "s3://lake",
]


def told(event: Any) -> list[str]:
    return [hint.location for hint in hints_of(json.dumps(event).encode()) if isinstance(hint, At)]


DETAIL = {"bucket": {"name": "lake"}, "object": {"key": "clicks/a+b/part-0"}}
OF_GOOGLE = {"kind": "storage#object", "bucket": "lake", "name": "clicks/part-0"}


@pytest.mark.parametrize(
    ("event", "places"),
    [
        ({"Records": [RECORD, RECORD]}, PLACES),
        ({"Type": "Notification", "Message": json.dumps({"Records": [RECORD]})}, PLACES),  # of SNS
        # EventBridge does not encode the key
        ({"source": "aws.s3", "detail": DETAIL}, ["s3://lake/clicks/a+b", "s3://lake/clicks", "s3://lake"]),
        (OF_GOOGLE, ["gs://lake/clicks", "gs://lake"]),
        ({"specversion": "1.0", "data": OF_GOOGLE}, ["gs://lake/clicks", "gs://lake"]),  # a CloudEvent
        ({"Service": "Amazon S3", "Event": "s3:TestEvent"}, []),
        ({"Type": "SubscriptionConfirmation", "Token": "x"}, []),
    ],
)
def test_an_event_names_every_folder_above_the_object(event: Any, places: list[str]) -> None:
    """In S3's own events keys are URL-encoded, with a plus for a space. A test of the connection names none."""
    assert told(event) == places


def test_an_event_names_the_folder_that_has_changed() -> None:
    """From each folder that may be a table."""
    hints = hints_of(json.dumps({"Records": [RECORD]}).encode())
    assert [hint.folder for hint in hints if isinstance(hint, At)] == [
        "",
        "a b",
        "dt=2026-03-01/a b",
        "clicks/dt=2026-03-01/a b",
        "landing/clicks/dt=2026-03-01/a b",
    ]


@pytest.mark.parametrize("event", [{}, {"Records": []}, {"Records": [{"s3": {}}]}, {"bucket": 1, "name": "x"}])
def test_another_body_is_malformed(event: Any) -> None:
    """The sender learns what was expected."""
    with pytest.raises(MalformedHookError, match="Records"):
        hints_of(json.dumps(event).encode())
    with pytest.raises(MalformedHookError, match="too long"):  # the end of one that is cut off may name others
        hints_of(json.dumps({"Records": [RECORD]}).encode(), whole=False)


@given(st.recursive(st.none() | st.text() | st.integers(), lambda one: st.lists(one) | st.dictionaries(st.text(), one)))
def test_no_body_ends_the_daemon(event: Any) -> None:
    """A hook is a hint of a client that can reach the port."""
    try:
        hints_of(json.dumps(event).encode())
    except MalformedHookError:
        return


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPTIONS = DirectoryTableOptions()


def changed(seconds_ago: float, *, interval: float | None = None) -> Folder:
    at = NOW.timestamp() - seconds_ago
    return Folder(files=1, newest=at, changed=at, interval=interval)


@pytest.mark.parametrize(
    ("interval", "usual", "quiet"),
    [(None, None, 60), (10, None, 60), (300, None, 900), (None, 300, 900), (10, 300, 900), (300, 10, 900)],
)
def test_the_rhythm_is_three_intervals_and_never_less_than_a_minute(
    interval: float | None, usual: float | None, quiet: int
) -> None:
    """Of the partition's own interval and the table's the longer one counts."""
    before, after = (active(changed(age, interval=interval), (), usual, OPTIONS, NOW) for age in (quiet, quiet + 0.001))
    assert before is not None
    assert before.until == NOW
    assert after is None
    assert active(changed(-100), (), usual, OPTIONS, NOW) is not None  # the clock of a store may be ahead


def test_a_part_in_progress_keeps_a_partition_active_for_ever() -> None:
    """However old it is: a job may be restored that goes on with it."""
    old = replace(changed(10**7), staged=1, staged_at=NOW.timestamp() - 10**7)
    found = active(old, (), None, OPTIONS, NOW)
    assert found is not None
    assert found.until is None


def test_a_part_is_abandoned_only_where_the_owner_says_after_how_long() -> None:
    options = DirectoryTableOptions(abandoned_after=parse_duration("7d"))
    week = 7 * 86_400
    young, old = (replace(changed(10**7), staged=1, staged_at=NOW.timestamp() - age) for age in (week, week + 1))
    assert active(young, (), None, options, NOW) is not None
    assert active(old, (), None, options, NOW) is None
    folder_of_parts = replace(changed(10**7), staging=1)
    assert active(folder_of_parts, (), None, options, NOW) is not None


def test_a_folder_of_parts_above_keeps_all_partitions_below_active() -> None:
    """Spark and Hive write into `_temporary` or a staging folder, for any partition. A file there is not of them."""
    folder = changed(10**6)
    assert active(folder, [Folder(), Folder(staging=1)], None, OPTIONS, NOW) is not None
    assert active(folder, [Folder(staged=1)], None, OPTIONS, NOW) is None


def test_the_interval_is_the_median_between_checkpoints() -> None:
    """Files of one checkpoint are one change, and one late file changes no rhythm."""
    tasks = [checkpoint * 300.0 + task * 0.2 for checkpoint in range(10) for task in range(4)]
    assert usual_interval(array("d", tasks)) == pytest.approx(300)
    assert usual_interval(array("d", [*tasks, 10**6])) == pytest.approx(300)
    for few in ([], [5.0], [0.0, 259_200.0], [0.0, 1.0, 2.0]):  # they would keep the partition active for days
        assert usual_interval(array("d", few)) is None


def test_the_tables_interval_is_that_of_the_partitions_that_changed_last() -> None:
    """A writer that has become faster is known by what it does now."""
    old = [changed(10**6 + n, interval=3600) for n in range(100)]
    new = [changed(n, interval=60) for n in range(64)]
    assert writers.usual_interval([*old, *new]) == 60
    assert writers.usual_interval([changed(1)]) is None
    assert timedelta(seconds=180) == writers.quiet_time(changed(1), 60, OPTIONS)
