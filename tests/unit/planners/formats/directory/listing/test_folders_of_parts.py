"""A folder of parts on a real S3 server: what lies in it, and nothing any more."""

from __future__ import annotations

from uuid import uuid4

import pytest

from lakewarden.planners.formats.directory.listing.folders import EntryKind, Folder
from lakewarden.planners.formats.directory.listing.walk import Walk
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.storages import Storages
from tests.support.object_stores.s3_server import BUCKET, S3Server


@pytest.fixture
def location(s3_server: S3Server) -> str:
    s3_server.start()
    return f"s3://{BUCKET}/{uuid4().hex}"


def _kind(name: str) -> EntryKind:
    return EntryKind.STAGED if name == "_temporary" else EntryKind.DATA


def _looks(location: str, server: S3Server) -> list[Folder]:
    """Return the directory's own folder by a look at everything, and by a look at it alone."""
    everything, alone = (
        Walk(location=location, storage=Storages([server.store()]).of(location), kinds=_kind) for _ in range(2)
    )
    everything.all(None)
    alone.look_at("")
    return [everything.folders[""], alone.folders[""]]


def test_a_folder_of_parts_counts_while_an_object_lies_in_it(location: str, s3_server: S3Server) -> None:
    """The server lists its prefix also when all objects in it are gone."""
    files = s3_server.files()
    files.pipe_file(f"{location}/dt=1/part-1", b"a")
    files.pipe_file(f"{location}/_temporary/0/part-2", b"")
    for folder in _looks(location, s3_server):
        assert (folder.staging, folder.staging_name) == (1, "_temporary")
        assert folder.hollow_since == folder.oldest_staged > 0
    files.pipe_file(f"{location}/_temporary/0/part-3", b"a")
    for folder in _looks(location, s3_server):
        assert (folder.staging, folder.hollow_since) == (1, 0)
    for name in ("part-2", "part-3"):
        files.rm_file(f"{location}/_temporary/0/{name}")
    assert f"{location.removeprefix('s3://')}/_temporary" in files.ls(location, detail=False)
    assert [folder.staging for folder in _looks(location, s3_server)] == [0, 0]


def test_a_listing_of_everything_below_ends_when_enough_was_seen(location: str, s3_server: S3Server) -> None:
    s3_server.put_many({f"{location}/_temporary/part-{number}": b"a" for number in range(5)})
    storage, seen = Storages([s3_server.store()]).of(location), list[str]()
    assert isinstance(storage, ObjectStorage)

    def take(path: str, _: FileEntry) -> None:
        seen.append(path)
        if len(seen) == 2:
            raise StopIteration

    storage.each_below(location, take)
    assert seen == ["_temporary/part-0", "_temporary/part-1"]
