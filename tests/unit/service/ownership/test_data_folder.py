"""The data folder: one daemon has it at a time."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.service.ownership.data_folder import DataFolder
from lakewarden.service.store.opening import file_of
from lakewarden.service.store.sql.sqlite import open_sqlite
from tests.support.values import a_run

HOLDER = """
import pathlib, sys, time
from lakewarden.service.ownership.data_folder import DataFolder
folder = DataFolder(pathlib.Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_daemon_is_refused_and_told_who_has_the_folder(tmp_path: Path) -> None:
    """The message names the folder and the process, and says what to do."""
    first = DataFolder(tmp_path / "data")

    with pytest.raises(PermanentError) as refused:
        DataFolder(tmp_path / "data")

    assert str(refused.value) == (
        f"data_dir {tmp_path / 'data'} belongs to a running daemon (pid {os.getpid()}): "
        "stop it, or use another data_dir"
    )
    first.release()


def test_a_folder_that_is_made_is_for_its_owner_alone(tmp_path: Path) -> None:
    """One that is there already keeps its mode: it may be a volume, or have other things in it."""
    (tmp_path / "theirs").mkdir(mode=0o755)
    for name, mode in (("ours", 0o700), ("theirs", 0o755)):
        DataFolder(tmp_path / name).release()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == mode


def test_a_folder_that_was_released_can_be_taken_again(tmp_path: Path) -> None:
    """Also by a daemon of a shorter process id: the old one is not left in the file."""
    DataFolder(tmp_path).release()
    (tmp_path / "lakewarden.lock").write_text("9" * 40)

    folder = DataFolder(tmp_path)

    assert (tmp_path / "lakewarden.lock").read_text() == str(os.getpid())
    folder.release()


def test_a_killed_daemon_leaves_its_folder_free(tmp_path: Path) -> None:
    """The lock belongs to the process and goes with it, however it dies."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(PermanentError, match=f"pid {holder.pid}"):
            DataFolder(tmp_path)
        holder.kill()

    DataFolder(tmp_path).release()


def test_a_folder_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")

    with pytest.raises(PermanentError, match="cannot be used"):
        DataFolder(tmp_path / "file" / "data")


def test_a_data_folder_that_is_deleted_or_replaced_proves_nothing_any_more(tmp_path: Path) -> None:
    """Another daemon can lock the new one: both would act."""
    folder = DataFolder(tmp_path / "data")
    assert folder.lost() is None
    shutil.rmtree(tmp_path / "data")
    assert "was deleted or replaced under the daemon" in (folder.lost() or "")
    other = DataFolder(tmp_path / "data")
    assert other.lost() is None
    assert folder.lost() is not None
    folder.release()
    other.release()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_store_that_is_moved_away_or_replaced_proves_nothing_any_more(tmp_path: Path, *, replaced: bool) -> None:
    """The daemon would go on to write into the moved file, and the next daemon would not know its runs."""
    folder = DataFolder(tmp_path)
    store = open_sqlite(file_of(tmp_path))
    folder.keeps(file_of(tmp_path))
    store.request(a_run())
    assert folder.lost() is None

    file_of(tmp_path).rename(tmp_path / "moved.db")
    if replaced:
        open_sqlite(file_of(tmp_path)).close()

    assert "was moved away or replaced under the daemon: stop the daemon, put the file back" in (folder.lost() or "")
    store.close()
    folder.release()
