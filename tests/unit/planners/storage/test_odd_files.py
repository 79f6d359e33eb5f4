"""What a local folder may hold beside files. It is named, and never waited for."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.planners.storage.content import FileTooLargeError, bytes_of

STORAGE = LocalStorage()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)  # relative to the folder: an address has at most 108 bytes


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (os.mkfifo, "is a named pipe, and no file"),
        (_socket, "is a socket or a device, and no file"),
        (Path.mkdir, "is a folder, and no file"),
        (lambda path: path.symlink_to("/dev/zero"), "is a link, and no file"),
        (lambda path: path.symlink_to("/proc/self/environ"), "is a link, and no file"),
        (lambda path: path.symlink_to(path), "is a link, and no file"),
    ],
    ids=["pipe", "socket", "folder", "device", "our environment", "circle"],
)
def test_what_is_no_regular_file_is_named_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], says: str
) -> None:
    """Reading a pipe would wait without end, and a device may never end."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "odd")
    with pytest.raises(PermanentError, match=says):
        STORAGE.read(str(tmp_path / "odd"))


@pytest.mark.timeout(10)
def test_a_file_on_conditions_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """The error names it."""
    os.mkfifo(tmp_path / "marks.json")
    with pytest.raises(TemporaryError, match="is a named pipe, and no file: remove it"):
        LocalConditions().versioned(str(tmp_path / "marks.json"))


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 5000])
def test_what_can_be_no_name_is_an_error_of_its_file(tmp_path: Path, name: str) -> None:
    """The error can be printed."""
    for ask in (STORAGE.read, STORAGE.listing, STORAGE.changed_at):
        with pytest.raises(PermanentError) as refused:
            ask(f"{tmp_path}/{name}")
        str(refused.value).encode()
        assert len(str(refused.value)) < 500


@pytest.mark.parametrize("make", [os.mkfifo, Path.touch])
def test_what_is_no_folder_is_not_an_empty_one(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A timeline that cannot be listed would look new."""
    make(tmp_path / "odd")
    with pytest.raises(PermanentError, match="is not a folder"):
        STORAGE.listing(str(tmp_path / "odd"))
    for missing in (tmp_path / "none", tmp_path / "odd" / "none"):
        with pytest.raises(FileNotFoundError):
            STORAGE.listing(str(missing))


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    """Its size is enough to refuse it. A sparse terabyte takes no memory."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(FileTooLargeError):
        STORAGE.read(str(tmp_path / "large"), limit=100)
    (tmp_path / "whole").write_bytes(b"x" * 100)
    assert STORAGE.read(str(tmp_path / "whole"), limit=100) == b"x" * 100


def test_a_file_that_does_not_know_its_size_is_read() -> None:
    """The files of the kernel are an example."""
    assert b"Linux" in STORAGE.read("/proc/version")
    with pytest.raises(FileTooLargeError):
        STORAGE.read("/proc/version", limit=3)


def test_a_link_that_leads_nowhere_is_not_listed(tmp_path: Path) -> None:
    """Neither is one that leads to itself. The others are listed."""
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "pipe")
    assert {entry.name for entry in STORAGE.listing(str(tmp_path))} == {"file", "pipe"}


@pytest.mark.parametrize("seconds", [-(2**40), 2**33])
def test_a_time_that_no_calendar_knows_is_the_nearest_that_one_does(tmp_path: Path, seconds: int) -> None:
    """Disks keep times of any year."""
    (tmp_path / "file").touch()
    os.utime(tmp_path / "file", (seconds, seconds))
    found = STORAGE.listing(str(tmp_path))[0].modified
    assert datetime(1970, 1, 1, tzinfo=UTC) <= found <= datetime(9000, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("link", ["here -> .", "up -> ..", "deep/up -> ../..", "deep/other -> ../beside"])
def test_links_in_a_circle_are_not_followed(tmp_path: Path, link: str) -> None:
    """A walk through a folder ends, and finds each file. A link to a folder beside is followed."""
    table = tmp_path / "table"
    for folder in ("deep", "beside"):
        (table / folder).mkdir(parents=True)
        (table / folder / "file").write_text("x")
    (table / "beside" / "back").symlink_to("../deep")
    name, _, target = link.partition(" -> ")
    (table / name).symlink_to(target)

    def walked(folder: str, depth: int) -> list[str]:
        assert depth < 6, folder
        entries = STORAGE.listing(folder)
        deeper = [one for entry in entries if entry.is_folder for one in walked(f"{folder}/{entry.name}", depth + 1)]
        return [f"{folder}/{entry.name}" for entry in entries if not entry.is_folder] + deeper

    found = walked(str(table), 0)
    assert {f"{table}/deep/file", f"{table}/beside/file", f"{table}/beside/back/file"} <= {*found}


def test_too_little_memory_for_a_file_is_no_error_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads has a limit. It says so, and the table is not reported as unreadable."""

    def refuses(*_: Any, **__: Any) -> NoReturn:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(os, "stat", refuses)
    with pytest.raises(MemoryError):
        STORAGE.version(str(tmp_path))


def test_the_bytes_of_files_are_counted_unless_that_takes_too_many_listings(tmp_path: Path) -> None:
    """A file that is gone has none. A folder that is gone, or that is no folder, leaves the sum uncounted."""
    for folder in range(101):
        (tmp_path / f"p{folder}").mkdir()
        (tmp_path / f"p{folder}" / "a.parquet").write_bytes(b"x" * folder)
    files = [f"{tmp_path}/p{folder}/a.parquet" for folder in range(101)]
    assert bytes_of([*files[:100], f"{tmp_path}/p0/gone.parquet"], STORAGE) == sum(range(100))
    assert bytes_of(files, STORAGE) is None
    assert bytes_of([], STORAGE) == 0
    assert bytes_of([f"{tmp_path}/gone/a.parquet"], STORAGE) is None
    assert bytes_of([f"{files[0]}/a.parquet"], STORAGE) is None
