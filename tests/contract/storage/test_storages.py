"""Every kind of storage gives the same answers."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import fsspec
import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.ports import FileEntry, Storage
from lakewarden.planners.storage import FsspecStorage, LocalStorage, Storages, storage_for
from lakewarden.planners.storage.settings import S3Store, Secret
from tests.support.object_stores.fault_proxy import FaultProxy, StoreFault
from tests.support.object_stores.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server
from tests.support.serving import Handler, serving

Put = Callable[[str, bytes], None]
NAMED = "catalog://lake/sales.orders"
"""A table in a catalog. Its files may be anywhere."""


class Place:
    """A storage, a folder in it, and a way to put files there without the storage."""

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
    """These are the facts that an observation compares."""
    place.put("a", b"12345")
    place.put("sub/b", b"")
    entries = {e.name: e for e in place.storage.listing(place.folder)}
    assert {name: (e.size, e.is_folder) for name, e in entries.items() if name == "a"} == {"a": (5, False)}
    assert entries["sub"].is_folder
    assert abs(entries["a"].modified - datetime.now(UTC)).total_seconds() < 60


def test_entries_are_those_of_a_listing_however_many(place: Place) -> None:
    """A listing has a limit, and they have none. A missing folder is not found."""
    for number in range(25):
        place.put(f"files/{number:02d}", b"12345")
    place.put("files/sub/b", b"1")
    by_name = [sorted(found, key=lambda e: e.name) for found in _both(place, f"{place.folder}/files")]
    assert by_name[0] == by_name[1]
    assert len(by_name[0]) == 26
    with pytest.raises(PermanentError, match="more than 20 entries"):
        place.storage.listing(f"{place.folder}/files", most=20)
    with pytest.raises(FileNotFoundError):
        list(place.storage.entries(f"{place.folder}/nothing/here"))


def _both(place: Place, folder: str) -> tuple[list[FileEntry], list[FileEntry]]:
    return list(place.storage.listing(folder)), list(place.storage.entries(folder))


@pytest.mark.parametrize("asked", [["05", "x"], ["x"], ["x", *(f"{number:02d}" for number in range(0, 25, 2))]])
def test_of_some_names_those_that_a_folder_has_are_told(place: Place, asked: list[str]) -> None:
    """However many files it has beside them. Files in folders below are not meant, nor is what begins alike."""
    for number in range(25):
        place.put(f"files/{number:02d}", b"1")
    place.put("files/05x", b"1")
    place.put("files/sub/x", b"1")
    found = place.storage.present(f"{place.folder}/files", asked)
    assert sorted(found) == sorted(name for name in asked if name != "x")
    assert not place.storage.present(f"{place.folder}/nothing/here", ["05"])


def test_a_stamp_changes_when_an_entry_comes(place: Place) -> None:
    """Nothing else changes it."""
    place.put("a", b"1")
    if place.is_local:
        os.utime(place.folder, (1, 1))  # the folder's last change is not within the tick of the next
    before = place.storage.stamp(place.folder)
    assert place.storage.stamp(place.folder) == before
    place.put("b", b"1")
    assert place.storage.stamp(place.folder) != before


def test_a_storage_without_folder_times_needs_none(place: Place) -> None:
    """Its stamp is made from the listing itself. A local folder has a time of its last change."""
    place.put("a", b"1")
    changed = place.storage.changed_at(place.folder)
    assert (changed is None) == (not place.is_local)


def test_what_is_missing_is_not_found(place: Place) -> None:
    """This holds for folders and files."""
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


def test_a_part_of_a_file_is_read_up_to_its_end(place: Place) -> None:
    """The part may begin anywhere. Beyond the end there is no content, and that is no error."""
    place.put("a", b"12345")
    place.put("empty", b"")
    asked = ((0, 2), (2, 2), (4, 2), (5, 2), (9, 2))
    parts = [place.storage.read_part(f"{place.folder}/a", begin=begin, size=size) for begin, size in asked]
    assert parts == [b"12", b"34", b"5", b"", b""]
    assert place.storage.read_part(f"{place.folder}/empty", begin=0, size=2) == b""
    with pytest.raises(FileNotFoundError):
        place.storage.read_part(f"{place.folder}/missing", begin=0, size=2)


def test_an_empty_file_is_read_as_such(place: Place) -> None:
    """Hudi's timeline has many of them. S3 answers a request for the first byte of one with an error."""
    place.put("empty", b"")
    assert place.storage.read(f"{place.folder}/empty") == b""


def test_a_stamp_changes_when_a_file_of_equal_size_takes_anothers_place(place: Place) -> None:
    """Some stores have times only to the second. Their version of the content shows the change."""
    place.put("a", b"1")
    before = place.storage.stamp(place.folder)
    if place.is_local:
        (Path(place.folder) / "a").unlink()  # a folder's time changes with its entries, not with their contents
    place.put("a", b"2")
    assert place.storage.stamp(place.folder) != before


def test_a_path_through_a_file_leads_nowhere(tmp_path: Path) -> None:
    """If a file is in the place of a folder, there is no such folder."""
    (tmp_path / "file").write_text("x")
    for ask in (LocalStorage().stamp, LocalStorage().listing, LocalStorage().read):
        with pytest.raises(FileNotFoundError):
            ask(f"{tmp_path}/file/.hoodie")


class FailingDriver:
    """A store that is down."""

    def ls(self, path: str, *, detail: bool) -> list[Any]:
        raise ConnectionResetError("the store hung up")


def test_other_trouble_is_temporary() -> None:
    """For any error of a driver, the caller learns that a retry may help."""
    with pytest.raises(TemporaryError, match="hung up"):
        FsspecStorage(FailingDriver).listing("s3://b/x")


def test_a_file_has_another_version_when_it_is_written_anew(place: Place) -> None:
    """Nothing else changes it."""
    place.put("a", b"1")
    before = place.storage.version(f"{place.folder}/a")
    assert place.storage.version(f"{place.folder}/a") == before
    place.put("a", b"2")
    assert place.storage.version(f"{place.folder}/a") != before
    with pytest.raises(FileNotFoundError):
        place.storage.version(f"{place.folder}/b")


def test_a_listing_of_many_pages_is_whole(s3_server: S3Server) -> None:
    """A store returns at most a thousand entries at a time."""
    s3_server.start()
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    s3_server.put_many({f"{folder}/{number:04}": b"1" for number in range(1003)})
    files.pipe_file(f"{folder}/sub/", b"")  # the mark of an empty folder, as Hadoop's S3A leaves it
    storage = Storages([s3_server.store()]).of(folder)
    names = sorted(entry.name for entry in storage.listing(folder))
    assert names == [*(f"{number:04}" for number in range(1003)), "sub"]
    with pytest.raises(FileNotFoundError):
        storage.listing(f"{folder}/sub")
    before = storage.stamp(folder)
    files.rm_file(f"{folder}/1001")
    assert storage.stamp(folder) != before


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FaultProxy]:
    """Put a proxy before the S3 server."""
    s3_server.start()
    with FaultProxy(upstream=s3_server.port).running() as proxy:
        yield proxy


def test_a_listing_that_breaks_off_is_an_error_and_no_shorter_listing(s3_server: S3Server, proxy: FaultProxy) -> None:
    """A missing entry would look like a deletion."""
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    for number in range(8):
        files.pipe_file(f"{folder}/{number}", b"1")
    storage = Storages([s3_server.store(endpoint=proxy.endpoint)]).of(folder)
    proxy.page = 3
    assert len(storage.listing(folder)) == 8
    with proxy.spoils(StoreFault.FAILING_PAGE):
        for ask in (storage.listing, storage.stamp):
            with pytest.raises(TemporaryError, match="internal error"):
                ask(folder)


def test_a_listing_whose_pages_come_for_ever_ends_in_time(endless: str) -> None:
    """Each of its pages is in time, and another one always follows. The listing ends at the time limit of the whole."""
    store = S3Store.model_validate(
        {"prefix": "s3://lake", "endpoint": endless, "path_style": True, "anonymous": True, "timeout": "1s"}
    )
    with pytest.raises(TemporaryError, match="has not answered in time"):
        Storages([store]).of("s3://lake/t").listing("s3://lake/t")


@pytest.fixture
def endless() -> Iterator[str]:
    """Start a store with an endless listing: every page names another one. Return its address."""

    class Endless(Handler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            entry = (
                "<Contents><Key>t/a</Key><LastModified>2026-11-22T06:03:03.000Z</LastModified><Size>1</Size></Contents>"
            )
            more = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
            self.answer(200, f"<ListBucketResult><Name>lake</Name>{more}{entry}</ListBucketResult>".encode())

    with serving(Endless) as port:
        yield f"http://127.0.0.1:{port}"


def test_a_file_that_is_too_large_is_not_fetched(s3_server: S3Server, proxy: FaultProxy) -> None:
    """Its size is known before its content. A file of gigabytes costs one request and no memory."""
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    files.pipe_file(f"{folder}/a", b"x" * 2**20)
    storage = Storages([s3_server.store(endpoint=proxy.endpoint, timeout="3s")]).of(folder)
    with proxy.spoils(StoreFault.SLOW_BODY), pytest.raises(PermanentError, match="larger than 1000 bytes"):
        storage.read(f"{folder}/a", limit=1000)
    with pytest.raises(PermanentError, match="nothing that an object store could hold"):
        storage.read(f"{folder}/../a")


def test_static_keys_go_without_the_environments_session_token(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That token belongs to the environment's own keys. With it a store refuses the configured keys."""
    s3_server.start()
    folder = f"s3://{BUCKET}/{uuid4().hex}"
    s3_server.files().pipe_file(f"{folder}/a", b"1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "of other keys")
    assert Storages([s3_server.store()]).of(folder).read(f"{folder}/a") == b"1"


def test_a_bucket_without_an_entry_is_asked_as_the_environment_says(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment gives its endpoint, region and keys."""
    s3_server.start()
    folder = f"s3://{BUCKET}/{uuid4().hex}"
    s3_server.files().pipe_file(f"{folder}/a", b"1")
    for name, value in {
        "AWS_ENDPOINT_URL": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    assert storage_for(folder).read(f"{folder}/a") == b"1"


def test_what_a_store_says_is_quoted_in_one_line_and_without_secrets(s3_server: S3Server) -> None:
    """The client's own text of an error has pages."""
    s3_server.start()
    storage = Storages([s3_server.store(endpoint="http://127.0.0.1:1")]).of(f"s3://{BUCKET}/t")
    with pytest.raises(TemporaryError) as error:
        storage.listing(f"s3://{BUCKET}/t")
    assert "Debug" not in str(error.value)
    assert SECRET_KEY not in str(error.value)
    assert len(str(error.value)) < 1000


def test_a_secret_that_was_replaced_is_used_without_a_restart(s3_server: S3Server, tmp_path: Path) -> None:
    """If a store refuses the secret, it is asked again with the current secret."""
    s3_server.start()
    folder, secret = f"s3://{BUCKET}/{uuid4().hex}", tmp_path / "secret"
    s3_server.files().pipe_file(f"{folder}/a", b"1")
    secret.write_text("outdated")
    storage = Storages([s3_server.store(secret_key=Secret(file=secret))]).of(folder)
    with pytest.raises(TemporaryError, match="denies access") as refused:
        storage.listing(folder)
    assert "outdated" not in str(refused.value)

    secret.write_text(SECRET_KEY)
    assert [entry.name for entry in storage.listing(folder)] == ["a"]


def test_an_unknown_scheme_is_a_permanent_error() -> None:
    """No driver, no table: an operator must install one."""
    with pytest.raises(PermanentError, match="nonsense"):
        storage_for("nonsense://b/x").listing("nonsense://b/x")


def test_at_a_name_in_a_catalog_nothing_lies() -> None:
    """Such a name is no location. Reading a file there is an error, and so is a conditional write."""
    storage = Storages().of(NAMED)
    for ask in (storage.stamp, storage.changed_at, storage.listing, storage.read):
        with pytest.raises(FileNotFoundError):
            ask(f"{NAMED}/metadata")
    assert Storages().conditions(NAMED) is None


# If a store does not answer, or answers that it is too busy, the error is temporary and comes soon.


PLACE = "s3://lake/trips/.hoodie"


def _reached_at(port: int, *, timeout: str) -> Storage:
    endpoint = f"http://127.0.0.1:{port}"
    store = S3Store.model_validate(
        {"prefix": "s3://lake", "endpoint": endpoint, "path_style": True, "anonymous": True, "timeout": timeout}
    )
    return Storages([store]).of(PLACE)


@pytest.fixture
def busy() -> Iterator[int]:
    """Start a store that is too busy for every request, and return its port."""

    class Busy(Handler):
        def do_GET(self) -> None:
            self.answer(503, b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")

    with serving(Busy) as port:
        yield port


def test_a_store_that_takes_no_notice_is_given_up_after_the_timeout() -> None:
    """The store accepts the connection and never answers. The driver's own retries are cut short."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        storage = _reached_at(mute.getsockname()[1], timeout="1s")
        for ask in (storage.stamp, storage.listing, storage.read):
            with pytest.raises(TemporaryError):
                ask(PLACE)


def test_a_store_that_is_too_busy_is_quoted(busy: int) -> None:
    """The reason at the table has the store's own words."""
    with pytest.raises(TemporaryError, match="reduce your request rate"):
        _reached_at(busy, timeout="20s").listing(PLACE)
