"""Empty files appear once, and their time moves."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.empty_files import EmptyFiles, LocalEmptyFiles, empty_files
from tests.support.object_stores.s3_server import BUCKET, S3Server


class Place:
    """A folder with a file of somebody else."""

    def __init__(self, storages: Storages, folder: str) -> None:
        self.storage, self.folder = storages.of(folder), folder

    @property
    def marker(self) -> str:
        return f"{self.folder}/_SUCCESS"

    @property
    def files(self) -> EmptyFiles:
        found = empty_files(self.folder, self.storage)
        assert found is not None
        return found

    def names(self) -> set[str]:
        return {entry.name for entry in self.storage.listing(self.folder)}


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, s3_server: S3Server) -> Iterator[Place]:
    if request.param == "local":
        (tmp_path / "part-1").write_bytes(b"row")
        yield Place(Storages(), str(tmp_path))
        return
    s3_server.start()
    folder, files = f"s3://{BUCKET}/{uuid4().hex}", s3_server.files()
    files.pipe_file(f"{folder}/part-1", b"row")
    yield Place(Storages([s3_server.store()]), folder)
    files.rm(folder, recursive=True)


def test_a_file_appears_once_and_nothing_lies_beside_it(place: Place) -> None:
    """It is empty."""
    assert not place.files.renew(place.marker)
    assert place.files.create(place.marker)
    assert place.names() == {"part-1", "_SUCCESS"}
    assert place.storage.read(place.marker) == b""


def test_a_file_that_is_there_keeps_its_content(place: Place) -> None:
    """A marker of a writer may hold something."""
    other = f"{place.folder}/part-1"
    place.files.renew(other)
    assert place.storage.read(other) == b"row"


def test_its_time_moves_when_it_is_renewed(place: Place) -> None:
    """Readers that wait for a newer marker see one."""
    place.files.create(place.marker)
    before = place.storage.version(place.marker)
    threading.Event().wait(1.1)  # a store that counts whole seconds
    assert place.files.renew(place.marker)
    assert place.storage.version(place.marker) != before
    assert place.names() == {"part-1", "_SUCCESS"}


def test_of_all_who_make_it_one_does(tmp_path: Path) -> None:
    """On a local disk the kernel says which."""
    with ThreadPoolExecutor(16) as racers:
        made = list(racers.map(lambda _: LocalEmptyFiles().create(str(tmp_path / "_SUCCESS")), range(16)))
    assert sum(made) == 1


def test_no_folder_is_made_and_no_link_followed(tmp_path: Path) -> None:
    """A partition that was dropped stays dropped, and a link leads to a file that is not the table's."""
    with pytest.raises(FileNotFoundError):
        LocalEmptyFiles().create(str(tmp_path / "dropped/_SUCCESS"))
    assert not (tmp_path / "dropped").exists()
    (tmp_path / "_SUCCESS").symlink_to(tmp_path / "elsewhere")
    assert not LocalEmptyFiles().create(str(tmp_path / "_SUCCESS"))
    with pytest.raises(PermanentError):
        LocalEmptyFiles().renew(str(tmp_path / "_SUCCESS"))
    assert not (tmp_path / "elsewhere").exists()
    os.mkfifo(tmp_path / "_PIPE")
    with pytest.raises(PermanentError, match="is no file"):
        LocalEmptyFiles().renew(str(tmp_path / "_PIPE"))


def test_other_stores_have_no_way_yet() -> None:
    """They are refused before anything is written."""
    assert empty_files("memory://lake/trips", Storages().of("memory://lake/trips")) is None
