"""The writer's record: the sent and acknowledged batches, and the rows that follow from them."""

from __future__ import annotations

import itertools
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from lakewarden.demo.writers import orders
from lakewarden.demo.writers.orders import Ending, RecordWriter, Row, merged, read_record
from lakewarden.demo.writers.writing import WritingTime, write_on


def upsert(key: str, value: int) -> Row:
    return Row(key=key, partition="north", value=value)


def delete(key: str, value: int) -> Row:
    return Row(key=key, partition="north", value=value, deleted=True)


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    """Every batch comes back with its rows, its ending and its message."""
    record = RecordWriter(tmp_path / "record")
    record.begun(1, [upsert("a", 1)])
    record.acknowledged(1)
    record.begun(2, [delete("a", 2)])
    record.failed(2, "no lock")

    first, second = read_record(tmp_path / "record").batches

    assert (first.rows, first.ending) == ((upsert("a", 1),), Ending.ACKNOWLEDGED)
    assert (second.rows, second.ending, second.message) == ((delete("a", 2),), Ending.FAILED, "no lock")


def test_the_rows_to_be_found_are_those_of_the_acknowledged_batches(tmp_path: Path) -> None:
    """Later values count, deleted rows are gone, and unacknowledged batches do not count."""
    record = RecordWriter(tmp_path / "record")
    for number, rows in enumerate([[upsert("a", 1), upsert("b", 1)], [upsert("b", 2), delete("a", 2)]], start=1):
        record.begun(number, rows)
        record.acknowledged(number)
    record.begun(3, [upsert("c", 3)])
    record.failed(3, "conflict")

    assert read_record(tmp_path / "record").expected_rows() == {"b": upsert("b", 2)}


def test_a_batch_that_was_never_answered_is_a_failure(tmp_path: Path) -> None:
    """If a writer died in the middle of a commit, the commit has failed, whatever its answer would have been. The file
    may be read between two halves of a line, and before the writer has begun.
    """
    assert read_record(tmp_path / "record").batches == ()
    RecordWriter(tmp_path / "record").begun(1, [upsert("a", 1)])
    with (tmp_path / "record").open("a") as file:
        file.write('{"batch": 1, "ackn')

    assert [batch.ending for batch in read_record(tmp_path / "record").failures()] == [Ending.OPEN]


def test_the_records_of_several_writers_are_one_in_the_order_of_time(tmp_path: Path) -> None:
    """Each writer has keys of its own, so their rows can be merged."""
    one, other = RecordWriter(tmp_path / "one"), RecordWriter(tmp_path / "other")
    one.begun(1, [upsert("a", 1)])
    other.begun(1, [upsert("x", 1)])
    one.acknowledged(1)
    other.acknowledged(1)
    one.begun(2, [upsert("a", 2)])
    one.acknowledged(2)

    record = merged([read_record(tmp_path / "one"), read_record(tmp_path / "other")])

    assert [batch.rows for batch in record.batches] == [(upsert("a", 1),), (upsert("x", 1),), (upsert("a", 2),)]
    assert record.expected_rows() == {"a": upsert("a", 2), "x": upsert("x", 1)}


@given(seed=st.integers(), commits=st.integers(min_value=2, max_value=30))
def test_batches_are_what_a_shop_would_write(seed: int, commits: int) -> None:
    """No key is twice in a batch, a key is always in its partition, only existing rows are deleted, and every seed is
    repeatable.
    """
    living: set[str] = set()
    partitions: dict[str, str] = {}
    stream = list(itertools.islice(orders.batches(seed), commits))
    for number, rows in enumerate(stream, start=1):
        keys = [row.key for row in rows]
        assert len(keys) == len(set(keys))
        assert {row.value for row in rows} == {number}
        gone = {row.key for row in rows if row.deleted}
        assert gone <= living
        living = (living - gone) | {row.key for row in rows if not row.deleted}
        for row in rows:
            assert partitions.setdefault(row.key, row.partition) == row.partition
    assert any(row.deleted for rows in stream for row in rows)
    assert stream == list(itertools.islice(orders.batches(seed), commits))


@given(seed=st.integers(), commits=st.integers(min_value=2, max_value=40))
def test_days_pass_and_are_left_alone(seed: int, commits: int) -> None:
    """Every batch touches every warm day and no colder one, has no key twice, and deletes only existing rows."""
    living: set[str] = set()
    stream = list(itertools.islice(orders.days(seed), commits))
    for number, rows in enumerate(stream, start=1):
        today = (number - 1) // orders.BATCHES_PER_DAY
        warm = {f"day-{day:04}" for day in range(max(0, today - orders.WARM_DAYS + 1), today + 1)}
        assert {row.partition for row in rows} == warm
        keys = [row.key for row in rows]
        assert len(keys) == len(set(keys))
        gone = {row.key for row in rows if row.deleted}
        assert gone <= living
        living = (living - gone) | {row.key for row in rows if not row.deleted}
    assert stream == list(itertools.islice(orders.days(seed), commits))


@given(
    seed=st.integers(), commits=st.integers(min_value=2, max_value=40), per_day=st.integers(min_value=1, max_value=7)
)
def test_shifts_are_of_one_kind_and_touch_warm_days_only(seed: int, commits: int, per_day: int) -> None:
    """An append brings new keys. A MERGE changes existing rows or brings new ones. A DELETE deletes existing ones. None
    touches a cold day.
    """

    def day_of(batch: int) -> int:
        return batch // per_day

    living: set[str] = set()
    ever: set[str] = set()
    stream = list(itertools.islice(orders.shifts(seed, day_of), commits))
    for number, rows in enumerate(stream, start=1):
        keys = {row.key for row in rows}
        assert len(keys) == len(rows)
        match orders.change_of(number):
            case orders.Change.APPEND:
                assert rows
                assert not any(row.deleted for row in rows)
                assert not keys & ever
            case orders.Change.MERGE:
                assert not any(row.deleted for row in rows)
                assert keys - living == keys - ever
            case orders.Change.DELETE:
                assert all(row.deleted for row in rows)
                assert keys <= living
        warm = range(day_of(number) - orders.WARM_DAYS + 1, day_of(number) + 1)
        assert {row.partition for row in rows} <= {f"day-{day:04}" for day in warm}
        ever |= keys
        living = (living | keys) - {row.key for row in rows if row.deleted}
    assert stream == list(itertools.islice(orders.shifts(seed, day_of), commits))


@given(seed=st.integers(), commits=st.integers(min_value=1, max_value=40))
def test_arrivals_are_new_and_never_of_a_day_to_come(seed: int, commits: int) -> None:
    """An appender changes nothing, and no other writer has its keys."""
    shifted = {row.key for rows in itertools.islice(orders.shifts(seed), commits) for row in rows}
    keys: list[str] = []
    for number, rows in enumerate(itertools.islice(orders.arrivals(seed), commits), start=1):
        keys += [row.key for row in rows]
        assert not any(row.deleted for row in rows)
        assert all(row.partition <= f"day-{orders.day_by_count(number):04}" for row in rows)
    assert len(keys) == len(set(keys))
    assert not shifted & set(keys)


# The writer's loop: attempts are recorded, failed batches are repeated, and a restart continues where the writer was.


STREAM = [(Row(key=f"order-{number}", partition="north", value=number),) for number in range(1, 10)]


class Table:
    """Accepts batches, except for the attempts that it must refuse."""

    def __init__(self, *refused: int) -> None:
        self.taken: list[int] = []
        self._refused = refused
        self._attempts = itertools.count(1)

    def commit(self, batch: int, rows: tuple[Row, ...]) -> None:
        if next(self._attempts) in self._refused:
            raise RuntimeError("conflict")
        self.taken.append(batch)


class Attempts(WritingTime):
    """The time for so many attempts."""

    def __init__(self, attempts: int) -> None:
        self._left = attempts
        self.counting = False

    def start_counting(self) -> None:
        self.counting = True

    def goes_on(self) -> bool:
        self._left -= 1
        return self._left >= 0

    def sleep_until(self, moment: float) -> None:
        """Do not sleep in a test."""


def test_a_batch_that_failed_is_tried_again_and_both_attempts_are_recorded(tmp_path: Path) -> None:
    """No row is lost by a failure, and no failure is forgotten."""
    table = Table(2)

    write_on(table, iter(STREAM), tmp_path / "record", Attempts(4), every=2)

    record = read_record(tmp_path / "record")
    assert table.taken == [1, 2, 3]
    assert [batch.ending for batch in record.batches] == [
        Ending.ACKNOWLEDGED,
        Ending.FAILED,
        Ending.ACKNOWLEDGED,
        Ending.ACKNOWLEDGED,
    ]
    assert record.batches[1].rows == record.batches[2].rows


def test_a_writer_that_is_started_again_goes_on_where_it_was(tmp_path: Path) -> None:
    """Nothing is written twice, and nothing is left out."""
    first, second = Table(), Table()

    write_on(first, iter(STREAM), tmp_path / "record", Attempts(3), every=2)
    write_on(second, iter(STREAM), tmp_path / "record", Attempts(2), every=2)

    assert (first.taken, second.taken) == ([1, 2, 3], [4, 5])
    assert [batch.number for batch in read_record(tmp_path / "record").batches] == [1, 2, 3, 4, 5]


def test_time_is_counted_from_the_first_commit(tmp_path: Path) -> None:
    """A slow start does not shorten the writing."""
    writing_time = Attempts(1)

    write_on(Table(1), iter(STREAM), tmp_path / "record", writing_time, every=2)

    assert not writing_time.counting
