"""The reader of a plain directory finds the rows of one moment, and no row twice."""

from __future__ import annotations

import shutil
from itertools import islice
from pathlib import Path

import duckdb
import pytest

from lakewarden.demo.formats.directory.reader import TwiceError, listed, read_snapshot
from lakewarden.demo.formats.directory.writer import PARTITION_SECONDS, FileCommitter, arrivals

NOON = 1_772_366_400.0


def written(folder: Path, batches: int) -> None:
    committer = FileCommitter(folder)
    for number, rows in enumerate(islice(arrivals(1, lambda: NOON), batches), start=1):
        committer.commit(number, rows)


def test_the_rows_are_those_that_were_written_and_duckdb_finds_as_many(tmp_path: Path) -> None:
    """One file of each batch, without an extension, and each fifth in the partition before."""
    written(tmp_path, 10)
    found = read_snapshot(tmp_path)
    assert len(found.rows) == 120
    assert {row.partition for row in found.rows.values()} == {"dt=2026-03-01/at=120000", "dt=2026-03-01/at=115954"}
    assert found.counted == {"data_files": 10, "small_files": 10, "committed": 0}
    count = f"select count(*), count(distinct order_id) from read_parquet('{tmp_path}/dt=*/at=*/part-*')"
    assert duckdb.connect().execute(count).fetchall() == [(120, 120)]


def test_a_row_that_is_there_twice_is_never_right(tmp_path: Path) -> None:
    """As between a compaction and the deletion of its old files, if both could be seen."""
    written(tmp_path, 1)
    [file] = listed(tmp_path)
    shutil.copyfile(file.path, f"{file.path}-again")
    with pytest.raises(TwiceError, match="12 rows"):
        read_snapshot(tmp_path)


def test_parts_in_progress_markers_and_what_is_left_for_ttl_are_no_rows(tmp_path: Path) -> None:
    """Nor is the folder of a compaction."""
    written(tmp_path, 1)
    place = tmp_path / "dt=2026-03-01" / "at=120000"
    for hidden in (place / ".part-9.inprogress.7", place / "_SUCCESS", tmp_path / "_lakewarden" / "part-1"):
        hidden.parent.mkdir(exist_ok=True)
        hidden.touch()
    (tmp_path / "dt=2000-01-01" / "at=000001").mkdir(parents=True)
    (tmp_path / "dt=2000-01-01" / "at=000001" / "part-0").touch()
    found = read_snapshot(tmp_path)
    assert len(found.rows) == 12
    assert found.counted == {"data_files": 1, "small_files": 0, "committed": 1}


def test_a_late_batch_is_of_the_partition_before() -> None:
    """So it comes within the horizon, however long the job runs."""
    partitions = [rows[0].partition for rows in islice(arrivals(1, lambda: NOON + PARTITION_SECONDS), 5)]
    assert partitions == ["dt=2026-03-01/at=120006"] * 4 + ["dt=2026-03-01/at=120000"]
