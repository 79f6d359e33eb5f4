"""The evidence of a directory is taken from its files alone."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from faults.formats.directory.evidence import journals, not_done
from lakewarden.demo.formats.directory.writer import FileCommitter, arrivals

PLACE = "dt=2026-03-01/at=120000"


def written(folder: Path, batches: int) -> None:
    for number, rows in enumerate(islice(arrivals(1, lambda: 1_772_366_400.0), batches), start=1):
        FileCommitter(folder).commit(number, rows)


def test_a_partition_is_done_with_one_file_and_a_newer_marker(tmp_path: Path) -> None:
    """A marker that is older than the data vouches for nothing."""
    written(tmp_path, 2)
    assert list(not_done(tmp_path)) == [
        "at=120000 has 2 small files",
        "at=120000 has no marker that is newer than its data",
    ]
    first, second = sorted((tmp_path / PLACE).iterdir())
    first.unlink()
    marker = tmp_path / PLACE / "_SUCCESS"
    marker.touch()
    os.utime(second, ns=(0, marker.stat().st_mtime_ns - 1))
    assert list(not_done(tmp_path)) == []
    os.utime(marker, ns=(0, 0))
    assert list(not_done(tmp_path)) == ["at=120000 has no marker that is newer than its data"]


def test_acts_that_are_not_ended_are_told_by_their_journals(tmp_path: Path) -> None:
    """One that replaces files, one that deletes a partition, and one without a journal."""
    assert list(journals(tmp_path)) == []
    for name, journal in {"a": '{"new": {"x": 1}}', "b": '{"new": {}}', "c": None}.items():
        home = tmp_path / "_lakewarden" / name
        home.mkdir(parents=True)
        if journal is not None:
            (home / "record.json").write_text(journal)
    assert dict(journals(tmp_path)) == {"a": False, "b": True, "c": False}
