"""What a local folder may hold beside files: it is named, and never waited for."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import LocalStorage
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.planners.storage.content import TooLargeError

STORAGE = LocalStorage()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path.name)  # from where it is: an address has at most 108 bytes


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
    """A pipe would be waited for without end, and a device may never end."""
    monkeypatch.chdir(tmp_path)
    make(tmp_path / "odd")
    with pytest.raises(PermanentError, match=says):
        STORAGE.read(str(tmp_path / "odd"))


@pytest.mark.timeout(10)
def test_a_claim_that_is_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """It stands in the way of ours, and is named."""
    os.mkfifo(tmp_path / "claim.json")
    with pytest.raises(TemporaryError, match="is a named pipe, and no file: remove it"):
        LocalConditions().versioned(str(tmp_path / "claim.json"))


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "n" * 5000])
def test_what_can_be_no_name_is_an_error_of_its_file(tmp_path: Path, name: str) -> None:
    """And can be shown."""
    for ask in (STORAGE.read, STORAGE.listing, STORAGE.changed_at):
        with pytest.raises(PermanentError) as refused:
            ask(f"{tmp_path}/{name}")
        str(refused.value).encode()
        assert len(str(refused.value)) < 500


@pytest.mark.parametrize("make", [os.mkfifo, Path.touch])
def test_what_is_no_folder_is_not_an_empty_one(tmp_path: Path, make: Callable[[Path], None]) -> None:
    """A timeline that nobody can list would look new."""
    make(tmp_path / "odd")
    with pytest.raises(PermanentError, match="is no folder"):
        STORAGE.listing(str(tmp_path / "odd"))
    for missing in (tmp_path / "none", tmp_path / "odd" / "none"):
        with pytest.raises(FileNotFoundError):
            STORAGE.listing(str(missing))


def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    """Its size says so: a terabyte of nothing takes no memory."""
    with (tmp_path / "large").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(TooLargeError):
        STORAGE.read(str(tmp_path / "large"), limit=100)
    (tmp_path / "whole").write_bytes(b"x" * 100)
    assert STORAGE.read(str(tmp_path / "whole"), limit=100) == b"x" * 100


def test_a_file_that_does_not_know_its_size_is_read() -> None:
    """As those of the kernel."""
    assert b"Linux" in STORAGE.read("/proc/version")
    with pytest.raises(TooLargeError):
        STORAGE.read("/proc/version", limit=3)


def test_a_link_that_leads_nowhere_is_not_listed(tmp_path: Path) -> None:
    """Nor one that leads to itself; whatever the others are, they are listed."""
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
