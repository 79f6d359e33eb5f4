"""Every storage answers alike, whatever it stands on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import FsspecStorage, LocalStorage, storage_for

Put = Callable[[str, bytes], None]


class Place:
    """A storage, a folder in it, and a way to put files there behind its back."""

    def __init__(self, storage: Storage, folder: str, put: Put) -> None:
        self.storage, self.folder, self.put = storage, folder, put


@pytest.fixture(params=["local", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "local":
        yield Place(LocalStorage(), str(tmp_path), lambda name, content: _write(tmp_path / name, content))
        return
    folder = f"memory://{uuid4().hex}"
    files = fsspec.filesystem("memory")
    yield Place(storage_for(folder), folder, lambda name, content: files.pipe_file(f"{folder}/{name}", content))
    files.rm(folder, recursive=True)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def test_a_listing_shows_names_sizes_times_and_folders(place: Place) -> None:
    """Everything that observing compares."""
    place.put("a", b"12345")
    place.put("sub/b", b"")
    entries = {e.name: e for e in place.storage.listing(place.folder)}
    assert {name: (e.size, e.is_folder) for name, e in entries.items() if name == "a"} == {"a": (5, False)}
    assert entries["sub"].is_folder
    assert abs(entries["a"].modified - datetime.now(UTC)).total_seconds() < 60


def test_a_stamp_changes_when_an_entry_comes(place: Place) -> None:
    """And only then."""
    place.put("a", b"1")
    if isinstance(place.storage, LocalStorage):
        os.utime(place.folder, (1, 1))  # the folder's last change is not within the tick of the next
    before = place.storage.stamp(place.folder)
    assert place.storage.stamp(place.folder) == before
    place.put("b", b"1")
    assert place.storage.stamp(place.folder) != before


def test_a_storage_without_folder_times_needs_none(place: Place) -> None:
    """Its stamp is made of the listing itself; a local folder tells when it changed."""
    place.put("a", b"1")
    changed = place.storage.changed_at(place.folder)
    assert (changed is None) == isinstance(place.storage, FsspecStorage)


def test_what_is_missing_is_not_found(place: Place) -> None:
    """For folders and files alike."""
    place.put("a", b"1")
    for ask in (place.storage.stamp, place.storage.listing, place.storage.read):
        with pytest.raises(FileNotFoundError):
            ask(f"{place.folder}/nothing/here")


def test_a_file_is_read_whole_up_to_the_limit(place: Place) -> None:
    """A larger one is refused, not cut."""
    place.put("a", b"12345")
    assert place.storage.read(f"{place.folder}/a", limit=5) == b"12345"
    with pytest.raises(PermanentError, match="larger than 4"):
        place.storage.read(f"{place.folder}/a", limit=4)


def test_a_path_through_a_file_leads_nowhere(tmp_path: Path) -> None:
    """A file where a folder should be means that there is no such folder."""
    (tmp_path / "file").write_text("x")
    for ask in (LocalStorage().stamp, LocalStorage().listing, LocalStorage().read):
        with pytest.raises(FileNotFoundError):
            ask(f"{tmp_path}/file/.hoodie")


class FailingDriver:
    """A store that is down."""

    def ls(self, path: str, *, detail: bool) -> list[Any]:
        raise ConnectionResetError("the store hung up")


def test_other_trouble_is_temporary() -> None:
    """Whatever a driver raises, the caller learns that trying again may help."""
    with pytest.raises(TemporaryError, match="hung up"):
        FsspecStorage(FailingDriver).listing("s3://b/x")


def test_an_unknown_scheme_is_a_permanent_error() -> None:
    """No driver, no table: a person has to install one."""
    with pytest.raises(PermanentError, match="nonsense"):
        storage_for("nonsense://b/x").listing("nonsense://b/x")
