"""Every storage answers alike, whatever it stands on."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import Storage
from lakewarden.planners.storage import FsspecStorage, LocalStorage, Storages, storage_for
from lakewarden.planners.storage.settings import Secret
from tests.support.s3_server import BUCKET, SECRET_KEY, S3Server

Put = Callable[[str, bytes], None]
NAMED = "catalog://lake/sales.orders"
"""A table that a catalog knows: its files may lie anywhere."""


class Place:
    """A storage, a folder in it, and a way to put files there behind its back."""

    def __init__(self, storage: Storage, folder: str, put: Put) -> None:
        self.storage, self.folder, self.put = storage, folder, put
        self.is_local = "://" not in folder


@pytest.fixture(params=["local", "memory", "s3", "local of a catalog", "s3 of a catalog"])
def place(request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server) -> Iterator[Place]:
    store, _, of_a_catalog = request.param.partition(" of a ")
    if store == "local":
        storage = Storages().of(NAMED) if of_a_catalog else LocalStorage()
        yield Place(storage, str(tmp_path), lambda name, content: _write(tmp_path / name, content))
        return
    if store == "s3":
        s3_server.start()
        storages, folder, files = Storages([s3_server.store()]), f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    else:
        storages, folder, files = Storages(), f"memory://{uuid4().hex}", fsspec.filesystem("memory")
    yield Place(
        storages.of(NAMED if of_a_catalog else folder),
        folder,
        lambda name, content: files.pipe_file(f"{folder}/{name}", content),
    )
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
    if place.is_local:
        os.utime(place.folder, (1, 1))  # the folder's last change is not within the tick of the next
    before = place.storage.stamp(place.folder)
    assert place.storage.stamp(place.folder) == before
    place.put("b", b"1")
    assert place.storage.stamp(place.folder) != before


def test_a_storage_without_folder_times_needs_none(place: Place) -> None:
    """Its stamp is made of the listing itself; a local folder tells when it changed."""
    place.put("a", b"1")
    changed = place.storage.changed_at(place.folder)
    assert (changed is None) == (not place.is_local)


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


def test_an_empty_file_is_read_as_such(place: Place) -> None:
    """Hudi's timeline is full of them; S3 answers a request for the first byte of one with an error."""
    place.put("empty", b"")
    assert place.storage.read(f"{place.folder}/empty") == b""


def test_a_stamp_changes_when_a_file_of_equal_size_takes_anothers_place(place: Place) -> None:
    """Some stores know times to the second only: what they call the content's version tells."""
    place.put("a", b"1")
    before = place.storage.stamp(place.folder)
    if place.is_local:
        (Path(place.folder) / "a").unlink()  # a folder's time tells of entries, not of contents
    place.put("a", b"2")
    assert place.storage.stamp(place.folder) != before


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


def test_a_listing_of_many_pages_is_whole(s3_server: S3Server) -> None:
    """A store answers with at most a thousand entries at a time: with three here, by the driver's own option."""
    s3_server.start()
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    for number in range(8):
        files.pipe_file(f"{folder}/{number}", b"1")
    files.pipe_file(f"{folder}/sub/", b"")  # the mark of an empty folder, as Hadoop's S3A leaves it
    storage = _paged(s3_server, folder, page=3)
    assert sorted(entry.name for entry in storage.listing(folder)) == [*map(str, range(8)), "sub"]
    with pytest.raises(FileNotFoundError):
        storage.listing(f"{folder}/sub")


def test_a_listing_that_breaks_off_is_an_error_and_no_shorter_listing(s3_server: S3Server) -> None:
    """What is not listed would look like what was deleted."""
    s3_server.start()
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    for number in range(8):
        files.pipe_file(f"{folder}/{number}", b"1")
    storage = _paged(s3_server, folder, page=3, fails_at=3)
    with pytest.raises(TemporaryError, match="went away"):
        storage.listing(folder)


def test_a_secret_that_was_replaced_is_used_without_a_restart(s3_server: S3Server, tmp_path: Path) -> None:
    """A store that turns us away is asked again with the secret that there is then."""
    s3_server.start()
    folder, secret = f"s3://{BUCKET}/{uuid4().hex}", tmp_path / "secret"
    s3_server.files().pipe_file(f"{folder}/a", b"1")
    secret.write_text("outdated")
    storage = Storages([s3_server.store(secret_key=Secret(file=secret))]).of(folder)
    with pytest.raises(TemporaryError, match="refuses us") as refused:
        storage.listing(folder)
    assert "outdated" not in str(refused.value)

    secret.write_text(SECRET_KEY)
    assert [entry.name for entry in storage.listing(folder)] == ["a"]


def _paged(server: S3Server, folder: str, *, page: int, fails_at: int = 0) -> Storage:
    """Return a storage whose driver asks for `page` entries at a time, and is let down at the page `fails_at`."""
    storage = Storages([server.store()]).of(folder)
    assert isinstance(storage, FsspecStorage)
    driver = storage._driver()
    ask, asked = driver._list_pages, iter(range(1, 100))

    async def pages(method: str, **arguments: Any) -> AsyncIterator[Any]:
        async for found in ask(method, MaxKeys=page, **arguments):
            if next(asked) == fails_at:
                raise ConnectionResetError("the store went away")
            yield found

    driver._list_pages = pages
    return storage


def test_an_unknown_scheme_is_a_permanent_error() -> None:
    """No driver, no table: a person has to install one."""
    with pytest.raises(PermanentError, match="nonsense"):
        storage_for("nonsense://b/x").listing("nonsense://b/x")


def test_at_a_name_in_a_catalog_nothing_lies() -> None:
    """It tells of no place: whoever looks for a file there is told so, and nobody writes there on conditions."""
    storage = Storages().of(NAMED)
    for ask in (storage.stamp, storage.changed_at, storage.listing, storage.read):
        with pytest.raises(FileNotFoundError):
            ask(f"{NAMED}/metadata")
    assert Storages().conditions(NAMED) is None
