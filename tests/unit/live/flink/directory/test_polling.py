"""The reader beside a Flink job tells of numbers that are there twice, and of numbers that are gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

from live.flink.directory.polling import Polling


def put(place: Path, first: int, last: int) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    duckdb.connect().execute(f"copy (select unnest(range({first}, {last} + 1)) as id) to '{place}' (format parquet)")


def test_all_is_well_while_numbers_come(tmp_path: Path) -> None:
    """A part in progress is not read."""
    polling = Polling(tmp_path)
    polling.read()
    assert polling.reads == 0
    put(tmp_path / "number=0000" / "part-0", 1, 10)
    polling.read()
    put(tmp_path / "number=0001" / "part-1", 11, 15)
    (tmp_path / "number=0001" / ".part-2.inprogress.7").touch()
    polling.read()
    assert (polling.reads, polling.rows, polling.newest, polling.complaints) == (2, 15, 15, [])


def test_a_number_that_is_there_twice_or_gone_is_told(tmp_path: Path) -> None:
    """As if old and new files of a compaction could be seen together, or the old ones went before the new ones came."""
    polling, folder = Polling(tmp_path), tmp_path / "number=0000"
    put(folder / "part-0", 1, 10)
    put(folder / "part-1", 11, 20)
    polling.read()
    (folder / "part-1").unlink()
    polling.read()
    assert polling.complaints == ["10 rows are gone at 10"]
    shutil.copyfile(folder / "part-0", folder / "part-lakewarden-1")
    again = Polling(tmp_path)
    again.read()
    assert again.complaints == ["10 rows are there twice up to 10"]
