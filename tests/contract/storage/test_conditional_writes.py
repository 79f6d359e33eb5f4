"""Conditional writes: of several writers of a file one wins. A change by another writer is never overwritten."""

from __future__ import annotations

import contextlib
import hashlib
import json
import multiprocessing
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest

from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.ports import ConditionalWrites, NoConditionsError, Versioned
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.conditions import LocalConditions
from lakewarden.planners.storage.settings import S3Store
from tests.support.object_stores.fault_proxy import FaultProxy, StoreFault
from tests.support.object_stores.s3_server import BUCKET, S3Server
from tests.support.serving import Handler, serving

RACERS = 16


class Place:
    """A place for conditional writes: an existing folder, and a file of a folder that does not exist."""

    def __init__(self, storages: Storages, folder: str) -> None:
        self.storages, self.folder = storages, folder
        self.file = f"{folder}/claims/claim.json"

    @property
    def writes(self) -> ConditionalWrites:
        """Return another writer each time, as another process would have."""
        found = self.storages.conditions(self.folder)
        assert found is not None
        return found


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server) -> Iterator[Place]:
    if request.param == "local":
        yield Place(Storages(), str(tmp_path))
        return
    s3_server.start()
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    files.pipe_file(f"{folder}/table", b"")
    yield Place(Storages([s3_server.store(timeout="10m")]), folder)  # on a busy machine sixteen writers take long
    files.rm(folder, recursive=True)


def _race(act: Callable[[bytes], Versioned | None], turn: str) -> list[bytes]:
    """Return the content of the writers that won."""
    start = threading.Barrier(RACERS)

    def run(content: bytes) -> bool:
        start.wait()
        return act(content) is not None

    contents = [f"{turn} by {number}".encode() for number in range(RACERS)]
    with ThreadPoolExecutor(RACERS) as racers:
        return [content for content, won in zip(contents, racers.map(run, contents), strict=True) if won]


def _replacing(place: Place, version: str) -> Callable[[bytes], Versioned | None]:
    return lambda content: place.writes.replace(place.file, content, version=version)


def test_a_file_is_created_once(place: Place) -> None:
    """The second writer gets an error, and the file is not changed."""
    assert place.writes.versioned(place.file) is None
    made = place.writes.create(place.file, b"mine")
    assert made == place.writes.versioned(place.file)
    assert place.writes.create(place.file, b"yours") is None
    found = place.writes.versioned(place.file)
    assert found is not None
    assert found.content == b"mine"
    assert abs(found.modified - datetime.now(UTC)) < timedelta(minutes=1)


def test_only_the_version_that_was_read_is_replaced(place: Place) -> None:
    """A writer that read it before its last change has lost."""
    first = _made(place, b"1")
    second = place.writes.replace(place.file, b"2", version=first.version)
    assert second is not None
    assert second.version != first.version
    assert place.writes.replace(place.file, b"3", version=first.version) is None
    assert place.writes.versioned(place.file) == second
    assert place.writes.replace(place.file, b"3", version=second.version) is not None


def test_only_the_version_that_was_read_is_deleted(place: Place) -> None:
    """A file that another writer has changed since is kept. A missing file is neither replaced nor deleted."""
    first = _made(place, b"1")
    second = place.writes.replace(place.file, b"2", version=first.version)
    assert second is not None
    assert not place.writes.delete(place.file, version=first.version)
    assert place.writes.versioned(place.file) == second
    assert place.writes.delete(place.file, version=second.version)
    assert place.writes.versioned(place.file) is None
    assert not place.writes.delete(place.file, version=second.version)
    assert place.writes.replace(place.file, b"3", version=second.version) is None
    assert place.writes.create(place.file, b"4") is not None


def test_of_many_who_create_exactly_one_wins(place: Place) -> None:
    """The content is the winner's."""
    for turn in "abc":
        winner = _race(lambda content: place.writes.create(place.file, content), turn)
        found = place.writes.versioned(place.file)
        assert found is not None
        assert winner == [found.content]
        assert place.writes.delete(place.file, version=found.version)


def test_of_many_who_replace_exactly_one_wins(place: Place) -> None:
    """All of them have read the same version."""
    now = _made(place, b"0")
    for turn in "abc":
        winner = _race(_replacing(place, now.version), turn)
        found = place.writes.versioned(place.file)
        assert found is not None
        assert winner == [found.content]
        now = found


def _add(file: str, times: int) -> None:
    writes, done = LocalConditions(), 0
    while done < times:
        found = writes.versioned(file)
        assert found is not None
        count = json.loads(found.content)
        with contextlib.suppress(TemporaryError):  # on a busy machine the others may hold the lock for a long time
            done += writes.replace(file, str(count + 1).encode(), version=found.version) is not None


def test_processes_that_count_together_lose_no_count(tmp_path: Path) -> None:
    """A lock between threads of one process would not be enough."""
    file = str(tmp_path / "claims" / "claim.json")
    LocalConditions().create(file, b"0")
    processes = [multiprocessing.get_context("fork").Process(target=_add, args=(file, 25)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    found = LocalConditions().versioned(file)
    assert found is not None
    assert found.content == b"100"


def test_what_was_dropped_is_not_made_again(tmp_path: Path) -> None:
    """A writer that creates its table again must not find a folder of Lakewarden's in the old place."""
    file = str(tmp_path / "table" / "claims" / "claim.json")
    with pytest.raises(FileNotFoundError):
        LocalConditions().create(file, b"1")
    with pytest.raises(FileNotFoundError):
        LocalConditions().replace(file, b"1", version="x")
    assert not (tmp_path / "table").exists()


def test_a_lock_that_stays_taken_is_temporary_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its holder may be frozen. A process that waits for the lock must not wait for ever."""
    monkeypatch.setattr("lakewarden.planners.storage.conditions._LOCK_SECONDS", 0.05)
    file = str(tmp_path / "claim.json")
    from lakewarden.planners.storage import conditions  # noqa: PLC0415 - the module's own lock

    with conditions._locked(f"{file}.lock"), pytest.raises(TemporaryError, match="locked by another process"):
        LocalConditions().create(file, b"1")


class Careless(Handler):
    """A store without conditions: it accepts every write."""

    protocol_version = "HTTP/1.1"
    files: ClassVar[dict[str, bytes]]

    def do_PUT(self) -> None:
        self.files[self.path] = self.body()
        self._answer_with_tag()

    def do_GET(self) -> None:
        found = self.files.get(self.path)
        self.answer(404) if found is None else self._answer_with_tag(found)

    def do_DELETE(self) -> None:
        self.files.pop(self.path, None)
        self.answer(204)

    def _answer_with_tag(self, content: bytes = b"") -> None:
        digest = hashlib.md5(self.files[self.path], usedforsecurity=False).hexdigest()
        self.answer(200, content, {"ETag": f'"{digest}"', "Last-Modified": "Sun, 22 Nov 2026 06:00:00 GMT"})


@pytest.fixture
def careless() -> Iterator[Place]:
    """Start a store that ignores conditions."""

    class Empty(Careless):
        files: ClassVar[dict[str, bytes]] = {}

    with serving(Empty) as port:
        endpoint = f"http://127.0.0.1:{port}"
        store = {"prefix": "s3://lake", "endpoint": endpoint, "path_style": True, "anonymous": True}
        yield Place(Storages([S3Store.model_validate(store)]), "s3://lake/t")


def test_a_store_that_takes_no_notice_of_conditions_is_found_out(careless: Place) -> None:
    """On such a store every writer would win."""
    with pytest.raises(NoConditionsError, match="takes no notice"):
        careless.writes.create(careless.file, b"1")
    assert careless.writes.versioned(careless.file) is None


@pytest.mark.parametrize("fault", [StoreFault.LOST_RESPONSE, StoreFault.INTERNAL_ERROR])
def test_a_win_whose_answer_was_lost_is_a_win(s3_server: S3Server, fault: StoreFault) -> None:
    """The client repeats the request by itself, and is then refused because of its own first write."""
    s3_server.start()
    with FaultProxy(upstream=s3_server.port).running() as proxy:
        place = Place(Storages([s3_server.store(endpoint=proxy.endpoint)]), f"s3://{BUCKET}/{uuid4().hex}")
        with proxy.spoils(fault, requests="^PUT", times=1):
            made = place.writes.create(place.file, b"1")
        assert proxy.spoiled == 1
    assert made is not None
    assert made == Place(Storages([s3_server.store()]), place.folder).writes.versioned(place.file)


def test_a_file_that_was_deleted_never_comes_back_in_an_earlier_version(s3_server: S3Server) -> None:
    """The mark of a deletion is different each time. A writer that read the file before two deletions has lost."""
    s3_server.start()
    place = Place(Storages([s3_server.store()]), f"s3://{BUCKET}/{uuid4().hex}")
    marks = set()
    for turn in "abc":
        made = _made(place, turn.encode())
        assert place.writes.delete(place.file, version=made.version)
        marks.add(s3_server.files().info(place.file)["ETag"])
        assert place.writes.replace(place.file, b"late", version=made.version) is None
    assert len(marks) == 3
    assert place.writes.versioned(place.file) is None


def test_of_many_who_create_where_a_file_was_deleted_exactly_one_wins(place: Place) -> None:
    """This also holds against writers that are about to delete the old version."""
    for turn in "abc":
        old = _made(place, f"old {turn}".encode())
        assert place.writes.delete(place.file, version=old.version)
        winner = _race(lambda content: place.writes.create(place.file, content), turn)
        assert not place.writes.delete(place.file, version=old.version)
        found = place.writes.versioned(place.file)
        assert found is not None
        assert winner == [found.content]
        assert place.writes.delete(place.file, version=found.version)


@pytest.mark.parametrize("location", ["memory://x", "hdfs://node/x", "gs://b/x", "abfss://c@a.dfs.core.windows.net/x"])
def test_a_store_without_a_known_way_says_so(location: str) -> None:
    """The caller must warn an operator, and not take the silence for safety."""
    assert Storages().conditions(location) is None


def _made(place: Place, content: bytes) -> Versioned:
    made = place.writes.create(place.file, content)
    assert made is not None
    return made
