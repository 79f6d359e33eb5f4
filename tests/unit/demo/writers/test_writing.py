"""The writer's loop: attempts are recorded, failed batches are repeated, and a restart continues where the
writer was.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from lakewarden.demo.writers.orders import Ending, Row, read_record
from lakewarden.demo.writers.writing import write_on

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


class Attempts:
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
