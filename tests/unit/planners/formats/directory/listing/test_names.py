"""What a name in a directory stands for."""

from __future__ import annotations

from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.directory.listing.folders import (
    EntryKind,
    Folder,
    is_hidden,
    kind_of,
    partition_values,
)
from lakewarden.planners.formats.directory.listing.walk import Walk
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage.objects import ObjectStorage
from lakewarden.planners.storage.storages import Storages
from tests.support.object_stores.s3_server import BUCKET, S3Server


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("part-3c5b4d7e-0d6c-4a39-a0d5-5b4b2e9f9d11-0-12", EntryKind.DATA),  # Flink's, without an extension
        ("part-00000-1f0b.c000.snappy.parquet", EntryKind.DATA),
        ("000000_0", EntryKind.DATA),  # Hive's
        ("rows.csv.gz", EntryKind.DATA),
        ("dt=2026-03-01", EntryKind.DATA),
        ("_id=7", EntryKind.DATA),  # a partition column may begin so: Spark's rule
        ("_SUCCESS", EntryKind.MARKER),
        (".part-3c5b-0-12.inprogress.77aa", EntryKind.STAGED),
        ("part-3c5b-0-12.inprogress.77aa", EntryKind.STAGED),
        ("_part-3c5b-0-12_tmp_77aa", EntryKind.STAGED),  # the tail of Flink's upload to S3
        (".uncompacted-part-3c5b-0-12", EntryKind.STAGED),
        ("_temporary", EntryKind.STAGED),
        (".spark-staging-1f0b", EntryKind.STAGED),
        (".hive-staging_hive_2026-03-01", EntryKind.STAGED),
        (".staging_1772366400000", EntryKind.STAGED),
        ("rows.csv._COPYING_", EntryKind.STAGED),
        ("rows.csv.tmp", EntryKind.STAGED),
        (".somebody", EntryKind.STAGED),
        ("._SUCCESS.crc", EntryKind.IGNORED),
        (".part-00000.crc", EntryKind.IGNORED),
        ("_metadata", EntryKind.IGNORED),
        ("_common_metadata", EntryKind.IGNORED),
        ("dt=2026-03-01_$folder$", EntryKind.IGNORED),
        ("_audit", EntryKind.IGNORED),
        ("_a[1]", EntryKind.IGNORED),
        ("_a1", EntryKind.STAGED),
    ],
)
def test_a_name_tells_data_from_what_is_in_progress(name: str, kind: EntryKind) -> None:
    """The names are those that the writers leave. A hidden name that nobody explains counts as in progress."""
    assert kind_of(name, marker="_SUCCESS", ignored=["_audit", "_a[1]"]) is kind


@given(st.text(min_size=1))
def test_what_readers_overlook_is_never_data(name: str) -> None:
    """So a marker vouches for what readers see."""
    if is_hidden(name):
        assert kind_of(name, marker="_SUCCESS") is not EntryKind.DATA


def test_the_marker_of_spark_beside_one_of_another_name_is_ignored() -> None:
    assert kind_of("_DONE", marker="_DONE") is EntryKind.MARKER
    assert kind_of("_SUCCESS", marker="_DONE") is EntryKind.IGNORED


def test_the_values_of_a_path_are_unescaped() -> None:
    """As Flink and Hive write them. A level without a column has none."""
    assert partition_values("dt=2026-03-01/at=10%3A30/eu") == {"dt": "2026-03-01", "at": "10:30"}
    assert partition_values("2026/03") == {}


# A folder of parts on a real S3 server: what lies in it, and nothing any more.


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
