"""Which partitions are left alone because of MERGE, UPDATE and DELETE writers, and until when."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.iceberg.metadata.digests import LiveFile
from lakewarden.planners.formats.iceberg.metadata.metadata import Snapshot
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.rewriting.choosing import choose
from lakewarden.planners.formats.iceberg.rewriting.groups import file_groups
from lakewarden.planners.formats.iceberg.rewriting.selection import thresholds
from lakewarden.planners.formats.iceberg.writers.activity import newest_updates, recent_updates, usual_interval
from lakewarden.planners.formats.iceberg.writers.cold import (
    left_alone,
    never_quiet,
    next_turn,
    with_new_ones,
    with_rhythm,
)
from lakewarden.planners.model.view import Touch, WriterActivity
from tests.support.iceberg.iceberg_values import a_file, a_metadata, a_snapshot
from tests.support.values import NOW

OPTIONS = IcebergTableOptions()
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def touched(ago: timedelta, *, before: timedelta | None = None) -> Touch:
    """Return a touch so long ago, with an earlier one so long before it."""
    return Touch(at=NOW - ago, instant=str(ago), updates=True, before=None if before is None else NOW - ago - before)


def until(touch: Touch, *, interval: timedelta | None = None, now: datetime = NOW) -> timedelta | None:
    """Return how long after `now` the partition of this touch is left alone. None if it is not."""
    activity = WriterActivity(updated={"p=0": touch}, update_interval=interval)
    found = left_alone(activity, OPTIONS, now).get("p=0")
    return None if found is None else found - now


def test_a_partition_is_left_alone_after_its_rows_were_changed() -> None:
    """The time is a minute by default, or three times the usual interval of such commits if that is longer."""
    assert until(touched(12 * SECOND)) == 48 * SECOND
    assert until(touched(12 * SECOND), interval=2 * SECOND) == 48 * SECOND
    assert until(touched(12 * SECOND), interval=40 * SECOND) == 108 * SECOND
    assert until(touched(60 * SECOND)) is None
    assert until(touched(60 * SECOND), interval=40 * SECOND) == MINUTE


def test_a_writers_clock_that_is_ahead_frees_nothing() -> None:
    """A commit from the future counts as made a moment ago."""
    assert until(touched(-10 * SECOND)) == 70 * SECOND


def test_a_partition_is_left_alone_around_the_next_touch_too() -> None:
    """A partition that is touched every ten minutes is free from a minute after one touch until a minute before the
    next. If the next touch does not come, it is free again.
    """
    every_ten = {"before": 10 * MINUTE}
    assert until(touched(59 * SECOND, **every_ten)) == SECOND
    assert until(touched(MINUTE, **every_ten)) is None
    assert until(touched(8 * MINUTE, **every_ten)) is None
    assert until(touched(9 * MINUTE, **every_ten)) == 2 * MINUTE
    assert until(touched(10 * MINUTE, **every_ten)) == MINUTE
    assert until(touched(11 * MINUTE, **every_ten)) is None


def test_what_is_never_quiet_is_told() -> None:
    """The time after one touch reaches the time before the next."""
    regular, rare = (
        WriterActivity(updated={"p=0": touched(SECOND, before=span)}) for span in (2 * MINUTE, 2 * MINUTE + SECOND)
    )
    assert never_quiet(regular, OPTIONS)
    assert until(touched(MINUTE, before=2 * MINUTE)) == 2 * MINUTE
    assert not never_quiet(rare, OPTIONS)


def test_where_nothing_is_known_of_updates_nothing_is_left_alone() -> None:
    """Appends, and Flink's commits with equality deletes, are no updates. They make nothing hot."""
    assert left_alone(WriterActivity(touches={"p=0": touched(SECOND)}), OPTIONS, NOW) == {}
    assert next_turn(WriterActivity(), OPTIONS, NOW) is None


SPANS = st.integers(1, 400).map(lambda seconds: seconds * SECOND)
ACTIVITIES = st.builds(
    WriterActivity,
    updated=st.dictionaries(
        st.sampled_from(["", "p=0", "p=1", "p=2"]),
        st.builds(lambda ago, before: touched(ago, before=before), SPANS, st.none() | SPANS),
    ),
    update_interval=st.none() | SPANS,
)


@given(ACTIVITIES, st.integers(0, 3000))
def test_between_two_turns_nothing_changes(activity: WriterActivity, seconds: int) -> None:
    """A view may be kept until the next turn. Until then the same partitions are left alone, for the same time."""
    later = NOW + seconds * SECOND
    turn = next_turn(activity, OPTIONS, NOW)
    if turn is None or later < turn:
        assert left_alone(activity, OPTIONS, later) == left_alone(activity, OPTIONS, NOW)
    else:
        assert turn > NOW


def test_rhythm_is_told_by_the_files_that_updates_left_behind() -> None:
    """The newest two updates count, also for partitions that were touched earlier. Files of other commits do
    not count.
    """
    updates = [a_snapshot(n, ago=(9 - n) * MINUTE, operation="overwrite") for n in (8, 6, 4, 2)]
    found = [
        *(a_file("p=0", snapshot=n) for n in (2, 6, 6, 7)),
        *(a_file("p=1", snapshot=n) for n in (4, 5)),
        a_file("p=2", snapshot=5),
    ]
    rhythm = with_rhythm({"p=0": touched(MINUTE)}, found, updates)

    assert {one: (touch.at, touch.before) for one, touch in rhythm.items()} == {
        "p=0": (NOW - MINUTE, NOW - 3 * MINUTE),
        "p=1": (NOW - 5 * MINUTE, None),
    }


@dataclass
class Rotation:
    """A writer that MERGEs into one partition after another, on a table that is compacted by Lakewarden's rule."""

    partitions: int
    interval: timedelta
    updates: list[Snapshot] = field(default_factory=list)
    touched: dict[int, str] = field(default_factory=dict)
    files: list[LiveFile] = field(default_factory=list)

    def commit(self) -> datetime:
        """Let the writer commit once more. Return the time."""
        number = len(self.updates) + 1
        snapshot = a_snapshot(number, ago=-number * self.interval, operation="overwrite")
        partition = self.next_ones(1)[0]
        self.updates.append(snapshot)
        self.touched[number] = partition
        self.files.append(a_file(partition, snapshot=number, sequence=number))
        return snapshot.at

    def next_ones(self, commits: int) -> Sequence[str]:
        """Return the partitions that the next commits touch."""
        done = len(self.updates)
        return [f"p={number % self.partitions}" for number in range(done, done + commits)]

    def activity(self) -> WriterActivity:
        """Return the writer's activity, as the reader of metadata sees it."""
        newest_first = self.updates[::-1]
        interval = usual_interval(one.at for one in newest_first)
        recent = recent_updates(newest_first, OPTIONS, interval)
        newest = newest_updates((one, frozenset({self.touched[one.id]})) for one in recent)
        return WriterActivity(updated=with_rhythm(newest, self.files, self.updates), update_interval=interval)

    def compact(self, now: datetime) -> set[str]:
        """Rewrite the partitions that the rule allows. Return them."""
        options = CompactionOptions()
        groups = file_groups(self.files, a_metadata(), thresholds(options, {}))
        hot = left_alone(self.activity(), OPTIONS, now)
        choice = choose(groups, hot, options)
        gone = {key for group in choice.takes for key in group.keys}
        self.files = [file for file in self.files if file.key not in gone]
        for group in choice.takes:
            self.files.extend(a_file(one, snapshot=-1, sequence=group.oldest) for one in group.partitions)
        return {one for group in choice.takes for one in group.partitions}


@pytest.mark.parametrize(
    ("partitions", "rests"),
    [(4, False), (29, False), (31, False), (45, False), (61, True), (70, True)],
)
def test_nothing_is_planned_that_the_next_commits_touch(partitions: int, rests: bool) -> None:
    """The writer MERGEs every two seconds. These are the numbers of the measurement in which 13 of its 25 commits
    failed beside rewrites of everything. No rewrite touches its next partitions within the quiet time, for any number
    of partitions. If there is a quiet time between its rounds, a rewrite uses it.
    """
    writer = Rotation(partitions=partitions, interval=2 * SECOND)
    quiet_commits = OPTIONS.quiet_for // writer.interval
    compacted: set[str] = set()
    for now in _moments(writer, rounds=7):
        taken = writer.compact(now)
        assert taken.isdisjoint(writer.next_ones(quiet_commits))
        compacted |= taken

    assert bool(compacted) is rests


def _moments(writer: Rotation, *, rounds: int) -> Iterator[datetime]:
    """Yield moments between the commits of so many rounds."""
    for _ in range(rounds * writer.partitions):
        yield writer.commit() + SECOND


def test_a_writer_that_stays_in_a_few_partitions_leaves_the_others_to_us() -> None:
    """Partitions that it does not touch are compacted at once. Its own are compacted after it has gone, and not
    before.
    """
    writer = Rotation(partitions=2, interval=2 * SECOND)
    writer.files = [a_file("p=9", snapshot=-1) for _ in range(5)]
    *_, now = _moments(writer, rounds=10)

    assert writer.compact(now) == {"p=9"}
    assert writer.compact(now + 58 * SECOND) == set()
    assert writer.compact(now + 65 * SECOND) == {"p=0", "p=1"}


def test_mapping_is_by_partition() -> None:
    """Each partition has its own time."""
    updated: Mapping[str, Touch] = {"p=0": touched(SECOND), "p=1": touched(50 * SECOND), "p=2": touched(HOUR)}
    found = left_alone(WriterActivity(updated=updated), OPTIONS, NOW)
    assert found == {"p=0": NOW + 59 * SECOND, "p=1": NOW + 10 * SECOND}


def test_a_new_partition_is_left_alone_until_the_writer_has_had_a_turn() -> None:
    """Many writers MERGE into rows that they have just appended. It is not known yet whether this one does."""
    appended = Touch(at=NOW - 12 * SECOND, instant="1", updates=False)

    assert until(appended) == 48 * SECOND
    assert until(appended, interval=2 * SECOND) == 48 * SECOND
    assert until(appended, interval=5 * MINUTE) == 288 * SECOND
    assert until(appended, now=NOW + MINUTE) is None


def test_new_is_a_partition_of_which_every_file_was_appended_by_a_write_that_is_known() -> None:
    """A file of an expired snapshot, or of a rewrite, shows that the partition is older."""
    writes = [a_snapshot(n, ago=(9 - n) * MINUTE) for n in (8, 7, 6)]
    found = [
        *(a_file("p=new", snapshot=n) for n in (8, 7, 8)),
        *(a_file("p=old", snapshot=n) for n in (2, 8)),
        a_file("p=touched", snapshot=8),
    ]
    updated = {"p=touched": touched(SECOND)}

    known = with_new_ones(updated, found, writes)

    assert {one: (touch.at, touch.updates) for one, touch in known.items()} == {
        "p=touched": (NOW - SECOND, True),
        "p=new": (NOW - 2 * MINUTE, False),
    }


def test_appenders_alone_are_not_held_back() -> None:
    """Without a writer that changes rows, new partitions are free like others."""
    assert with_new_ones({}, [a_file("p=new", snapshot=8)], [a_snapshot(8, ago=SECOND)]) == {}
