"""What duckdb finds in a directory, and what the suite leaves in it for ttl and orphans."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

from lakewarden.demo.formats.directory.writer import FileCommitter, arrivals
from lakewarden.demo.writers.orders import Row
from live.directory.leftovers import Leftovers
from live.directory.rows import by_partition, rows_of

PLACE = "dt=2026-03-01/at=120000"


def written(folder: Path, batches: int) -> dict[str, Row]:
    expected = dict[str, Row]()
    for number, rows in enumerate(islice(arrivals(1, lambda: 1_772_366_400.0), batches), start=1):
        FileCommitter(folder).commit(number, rows)
        expected |= {row.key: row for row in rows}
    return expected


def test_a_row_that_is_there_twice_is_told(tmp_path: Path) -> None:
    """By its key."""
    written(tmp_path, 1)
    [file] = (tmp_path / PLACE).iterdir()
    assert rows_of(tmp_path)[1] == set()
    shutil.copyfile(file, f"{file}-again")
    found, twice = rows_of(tmp_path)
    assert len(found) == len(twice) == 12


def test_each_partition_is_compared_with_the_record(tmp_path: Path) -> None:
    """A missing row is wrong, and so is one that is there twice."""
    expected = written(tmp_path, 5)
    assert [(journey.instant, journey.wrong) for journey in by_partition(tmp_path, expected)] == [
        ("dt=2026-03-01/at=115954", 0),
        (PLACE, 0),
    ]
    one, other, *_ = (tmp_path / PLACE).iterdir()
    shutil.copyfile(one, f"{one}-again")
    other.unlink()
    assert [journey.wrong for journey in by_partition(tmp_path, expected)] == [0, 24]


def test_an_expired_partition_is_left_when_the_last_one_is_gone(tmp_path: Path) -> None:
    """With a part of a dead job in it. Its rows are no writer's."""
    leftovers = Leftovers()
    leftovers.leave(tmp_path / "none")
    assert leftovers.lying() == []
    written(tmp_path, 1)
    leftovers.leave(tmp_path)
    assert leftovers.lying() == ["the expired partition at=000001 was not deleted"]
    assert len(rows_of(tmp_path)[0]) == 12
    shutil.rmtree(tmp_path / "dt=2000-01-01" / "at=000001")
    leftovers.leave(tmp_path)
    assert leftovers.lying() == ["the expired partition at=000002 was not deleted"]
