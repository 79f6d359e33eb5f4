"""The folder of Lakewarden below a table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from lakewarden.executors.programs.paimon.steps.old_files import disk_clock, write_whole


def test_the_clock_of_the_disk_is_told_by_a_file_that_is_gone_again(tmp_path: Path) -> None:
    """On a mounted disk it is the server's, and not that of this machine."""
    assert abs(disk_clock(str(tmp_path)) - datetime.now(UTC)) < timedelta(minutes=1)
    assert list((tmp_path / "_lakewarden").iterdir()) == []


def test_a_file_is_written_whole_in_the_place_of_the_one_before(tmp_path: Path) -> None:
    """Nothing else is left, also if a killed run has left its scratch file."""
    (tmp_path / "a.next").write_bytes(b"half")
    for content in (b"one", b"two"):
        write_whole(str(tmp_path / "a"), content)
        assert (tmp_path / "a").read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
