"""A marker appears whole, and what killed runs have left of one goes."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from lakewarden.executors.programs.paimon.steps.old_files import written_whole

RUN = "0123456789abcdef"


def test_a_marker_is_written_and_renewed_and_nothing_else_is_left(tmp_path: Path) -> None:
    """Under another name first, so that no reader finds a part of it."""
    for content in (b"{}", b'{"creationTime": 1}'):
        written_whole(str(tmp_path), content, run=RUN)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"_SUCCESS": content}


def test_what_killed_runs_have_left_goes_and_no_file_of_another_program(tmp_path: Path) -> None:
    """Also what this very run has left before it was started again. A link in its place is not followed."""
    for run in (RUN, "f" * 16):
        (tmp_path / f"._SUCCESS.{run}.tmp").write_bytes(b"{")
    others = [f"._SUCCESS.{uuid.uuid4()}.tmp", "._SUCCESS.old.tmp", ".data.tmp", f"._SUCCESSES.{RUN}.tmp"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / f"._SUCCESS.{'a' * 16}.tmp").symlink_to(tmp_path / ".data.tmp")
    written_whole(str(tmp_path), b"{}", run=RUN)
    assert {file.name for file in tmp_path.iterdir()} == {"_SUCCESS", *others, f"._SUCCESS.{'a' * 16}.tmp"}


def test_a_folder_that_is_gone_gets_no_marker(tmp_path: Path) -> None:
    """It is not made again."""
    with pytest.raises(FileNotFoundError):
        written_whole(str(tmp_path / "gone"), b"{}", run=RUN)
    assert not (tmp_path / "gone").exists()
