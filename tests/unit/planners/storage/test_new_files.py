"""Files that appear with all their content, and never in the place of another."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from lakewarden.planners.model.errors import PermanentError, TemporaryError, UnknownError
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.empty_files import EmptyFiles, LocalEmptyFiles, empty_files
from lakewarden.planners.storage.local import create_whole, open_folder
from tests.support.object_stores.s3_server import BUCKET, S3Server


def test_a_file_appears_with_its_content_and_nothing_beside_it(tmp_path: Path) -> None:
    """The name under which it was written is gone."""
    assert create_whole(str(tmp_path / "snapshot-2"), b"two")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("snapshot-2", b"two")]


def test_what_is_there_is_never_replaced(tmp_path: Path) -> None:
    """The second of two commits with one number is told so."""
    (tmp_path / "snapshot-2").write_bytes(b"a writer's")
    assert not create_whole(str(tmp_path / "snapshot-2"), b"ours")
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"a writer's"]


def test_of_many_who_give_one_name_exactly_one_succeeds(tmp_path: Path) -> None:
    """And the file has the content of that one."""
    start, won = threading.Barrier(8), list[int]()

    def race(number: int) -> None:
        for round_ in range(20):
            start.wait()
            if create_whole(str(tmp_path / f"snapshot-{round_}"), str(number).encode()):
                won.append(round_ * 10 + number)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one // 10 for one in won) == list(range(20))
    assert all((tmp_path / f"snapshot-{one // 10}").read_text() == str(one % 10) for one in won)


def test_an_answer_that_was_lost_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network disk may have linked the file and say that it exists."""
    link = os.link

    def linked_twice(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "link", linked_twice)
    assert create_whole(str(tmp_path / "snapshot-2"), b"ours")


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.EPERM, PermanentError), (errno.ENOTSUP, PermanentError), (errno.EIO, UnknownError)]
)
def test_a_link_that_fails_says_whether_it_may_have_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]
) -> None:
    """A disk without hard links has done nothing. After an error of the disk nothing is known."""

    def fails(source: str, target: str, **folders: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", fails)
    with pytest.raises(kind, match="snapshot-2"):
        create_whole(str(tmp_path / "snapshot-2"), b"ours")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_no_folder_to_make(tmp_path: Path) -> None:
    """A table that was dropped is not made again."""
    with pytest.raises(TemporaryError, match="gone"):
        create_whole(str(tmp_path / "gone" / "snapshot-2"), b"ours")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_open_stays_the_place_when_its_name_changes_hands(tmp_path: Path) -> None:
    """A table is renamed, and another one is made in its old place: it gets no file that was meant for the first."""
    (tmp_path / "orders").mkdir()
    with open_folder(str(tmp_path / "orders")) as opened:
        (tmp_path / "orders").rename(tmp_path / "renamed")
        (tmp_path / "orders").mkdir()
        assert opened.create_whole("snapshot-2", b"ours")
        opened.replace("LATEST", b"1")
        opened.replace("LATEST", b"2")
    assert list((tmp_path / "orders").iterdir()) == []
    assert sorted(one.name for one in (tmp_path / "renamed").iterdir()) == ["LATEST", "snapshot-2"]
    assert (tmp_path / "renamed" / "LATEST").read_bytes() == b"2"


# Empty files appear once, and their time moves.


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
    with pytest.raises(PermanentError, match="is not a file"):
        LocalEmptyFiles().renew(str(tmp_path / "_PIPE"))


def test_other_stores_have_no_way_yet() -> None:
    """They are refused before anything is written."""
    assert empty_files("memory://lake/trips", Storages().of("memory://lake/trips")) is None
