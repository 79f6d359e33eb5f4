"""What partition commit and ttl have to do on a Paimon table."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.paimon.partitioned import Partitioned

COMMIT, TTL = Service.PARTITION_COMMIT, Service.TTL
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Made = Callable[..., Partitioned]


@pytest.fixture
def made(tmp_path: Path) -> Made:
    def make(service: Service, options: dict[str, Any], **own: Any) -> Partitioned:
        return Partitioned(tmp_path / "t", {service: options}, **own)

    return make


def marker(partitioned: Partitioned, **other: Any) -> str:
    now = round(partitioned.clock.now().timestamp() * 1000)
    return json.dumps({"creationTime": now, "modificationTime": now, **other})


def test_a_partition_is_done_when_no_rows_came_for_the_idle_time(made: Made) -> None:
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.clock.advance(HOUR / 2)
    table.write(2)
    assert table.due(COMMIT) == 0
    found = table.observe()
    assert found.keep_until is not None
    assert found.keep_until <= table.clock.now() + HOUR / 2 + timedelta(seconds=1)
    table.clock.advance(HOUR / 2 + timedelta(seconds=1))
    assert table.due(COMMIT) == 1
    table.clock.advance(HOUR)
    assert table.due(COMMIT) == 2


def test_a_marker_of_paimon_is_believed_until_rows_come(made: Made) -> None:
    """A marker without the number of a snapshot is judged by its time."""
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.clock.advance(2 * HOUR)
    table.mark(1, marker(table))
    assert table.due(COMMIT) == 0
    table.clock.advance(HOUR)
    table.write(1)
    table.clock.advance(2 * HOUR)
    assert table.due(COMMIT) == 1


def test_a_marker_of_lakewarden_is_judged_by_the_snapshot_that_its_author_knew(made: Made) -> None:
    """The clock of a writer may be behind."""
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.clock.advance(2 * HOUR)
    table.mark(1, marker(table, lakewardenSnapshot=1))
    table.clock.advance(-HOUR)
    table.write(1)
    table.clock.advance(3 * HOUR)
    assert table.due(COMMIT) == 1
    table.mark(1, marker(table, lakewardenSnapshot=2))
    assert table.due(COMMIT) == 0


def test_a_compaction_is_no_late_row(made: Made) -> None:
    """Even if the snapshots of its time are gone by then."""
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.write(1)
    table.clock.advance(2 * HOUR)
    table.mark(1, marker(table, lakewardenSnapshot=2))
    table.clock.advance(HOUR)
    table.table.compact()
    table.write(2)
    table.clock.advance(2 * HOUR)
    assert table.due(COMMIT) == 1
    table.table.expire(table.table.newest)
    assert table.due(COMMIT) == 1
    assert "p=2" not in str(table.view().at_rest)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"modificationTime": "soon"}', "\0", '{"modificationTime": -5e300}']
)
def test_a_file_that_is_no_marker_of_paimon_counts_for_nothing(made: Made, content: str) -> None:
    """As the empty one of Spark. It is written anew."""
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.mark(1, content)
    table.clock.advance(2 * HOUR)
    assert table.due(COMMIT) == 1


def test_the_times_of_partitions_hold_them_back(made: Made) -> None:
    """By the end of the time, as Paimon's trigger does. A partition whose values tell no time is never done."""
    table = made(COMMIT, {"idle_time": "1h", "time_interval": "1d"})
    table.write(1)
    table.clock.advance(100 * DAY)
    assert table.due(COMMIT) == 0
    [note] = [one for one in table.view().notes[COMMIT] if "p=1" in one]
    assert "tell no time" in note


def test_a_marker_that_was_written_changes_the_token(made: Made) -> None:
    """So that the next poll shows it."""
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.clock.advance(2 * HOUR)
    assert table.due(COMMIT) == 1
    before = table.format.token(table.registered, LocalStorage())
    assert table.format.token(table.registered, LocalStorage()) == before
    table.mark(1, marker(table, lakewardenSnapshot=1))
    assert table.format.token(table.registered, LocalStorage()) != before
    assert table.due(COMMIT) == 0


def test_a_known_marker_is_not_read_again(made: Made) -> None:
    """Ten thousand partitions that are done cost nothing."""
    table = made(COMMIT, {"idle_time": "1h"})
    table.write(1)
    table.clock.advance(2 * HOUR)
    table.mark(1, marker(table, lakewardenSnapshot=1))
    first = table.observe()
    (table.table.folder / "p=1" / "_SUCCESS").unlink()
    again = table.observe(first)
    assert COMMIT not in again.view.backlogs


def test_without_an_idle_time_nothing_is_marked_and_the_option_is_named(made: Made) -> None:
    table = made(COMMIT, {})
    table.write(1)
    table.clock.advance(2 * HOUR)
    [blocker] = table.view().blockers
    assert (blocker.code, "partition.idle-time-to-done" in blocker.reason) == ("setting_missing", True)
    table.table.alter(partition__idle_time_to_done="1 h")
    assert table.due(COMMIT) == 1


@pytest.mark.parametrize("action", ["done-partition", "mark-event", "custom", "success-file,custom"])
def test_an_action_that_is_not_a_file_is_refused_by_its_name(made: Made, action: str) -> None:
    table = made(COMMIT, {"idle_time": "1h"})
    table.table.alter(partition__mark_done_action=action)
    table.write(1)
    [blocker] = table.view().blockers
    assert action.rpartition(",")[2] in blocker.reason
    assert blocker.services == {COMMIT}


def test_an_old_partition_expires_by_its_last_rows(made: Made) -> None:
    table = made(TTL, {"retain": "10d", "strategy": "update-time"})
    table.write(1)
    table.clock.advance(5 * DAY)
    table.write(2)
    table.clock.advance(6 * DAY)
    assert table.due(TTL) == 1
    assert "p=1" in table.view().notes[TTL][0]
    table.clock.advance(5 * DAY)
    assert table.due(TTL) == 2


def test_a_table_without_old_snapshots_is_judged_by_the_times_of_its_files(made: Made) -> None:
    """In whatever zone they were written: half a day later than they say."""
    table = made(TTL, {"retain": "10d", "strategy": "update-time"})
    table.write(1)
    table.clock.advance(9 * DAY)
    table.write(2)
    table.table.expire(2)
    table.clock.advance(DAY + timedelta(hours=11))
    assert table.due(TTL) == 0
    table.clock.advance(timedelta(hours=2))
    assert table.due(TTL) == 1


def test_a_file_without_a_time_is_as_young_as_the_oldest_snapshot(made: Made) -> None:
    """Nothing is older than what is known."""
    table = made(TTL, {"retain": "10d", "strategy": "update-time"})
    table.table.append(table.table.file(1))
    table.clock.advance(9 * DAY)
    table.write(2)
    table.table.expire(2)
    table.clock.advance(2 * DAY)
    assert table.due(TTL) == 0
    table.clock.advance(9 * DAY)
    assert table.due(TTL) == 2


def test_rows_that_came_within_the_longest_outage_keep_an_expired_partition(made: Made) -> None:
    """The table's own option of Lakewarden says how long that is."""
    table = made(TTL, {"retain": "10d", "strategy": "update-time"}, longest_outage="20d")
    table.write(1)
    table.clock.advance(11 * DAY)
    assert table.due(TTL) == 0
    assert "longest_outage" in table.view().at_rest[TTL].reason
    table.clock.advance(10 * DAY)
    assert table.due(TTL) == 1


def test_a_strategy_of_the_table_that_is_not_known_is_refused_by_its_name(made: Made) -> None:
    """It may be of a newer release, or a class."""
    table = made(TTL, {"retain": "10d"})
    table.table.alter(partition__expiration_strategy="custom-one")
    table.write(1)
    [blocker] = table.view().blockers
    assert "'custom-one'" in blocker.reason
    assert blocker.services == {TTL}
    table.table.alter(partition__expiration_strategy="values-time")
    table.clock.advance(1000 * DAY)
    assert table.due(TTL) == 0  # its values tell no time


def test_a_table_with_partitions_in_a_metastore_keeps_them(made: Made) -> None:
    """The catalog would list them although they are gone."""
    table = made(TTL, {"retain": "10d", "strategy": "update-time"})
    table.table.alter(metastore__partitioned_table="true")
    table.write(1)
    assert [blocker.services for blocker in table.view().blockers] == [{TTL}]


def test_a_later_look_reads_only_the_commits_that_came(made: Made) -> None:
    """What a commit brought is known by its list."""
    table = made(COMMIT, {"idle_time": "1h"})
    for number in range(20):
        table.write(number % 3)
    first = table.observe()
    table.write(1)
    memo = table.observe(first).memo
    assert len(memo.came) == 21
    assert memo.came.items() >= first.memo.came.items()
