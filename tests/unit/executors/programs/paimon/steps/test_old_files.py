"""What a listing of a table's folder takes for a possible orphan."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.executors.programs.paimon.steps.old_files import (
    disk_clock,
    is_still,
    listed,
    write_whole,
    written_whole,
)
from lakewarden.planners.formats.paimon.deletion.names import Naming, naming_of
from lakewarden.planners.formats.paimon.metadata.schemas import Schema
from lakewarden.planners.formats.paimon.options.core_options import core_options

DATA = f"data-{uuid.UUID(int=1)}-0.parquet"
NOW = datetime.now(UTC)


@pytest.fixture
def naming() -> Naming:
    """Return the names of a table with the partition key `dt`."""
    options = core_options({}, version=3, has_key=False, key_has_partition=False)
    schema = Schema(
        id=0, version=3, primary_keys=(), partition_keys=("dt",), partition_types=("STRING",), options=options, at=None
    )
    return naming_of(schema)


def put(folder: Path, path: str, *, days: float = 10) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("x")
    at = (NOW - timedelta(days=days)).timestamp()
    os.utime(file, (at, at))
    return file


def found(folder: Path, naming: Naming) -> set[str]:
    return {one.path for one in listed(str(folder), naming, before=NOW - timedelta(days=3)).old}


def test_old_files_with_names_of_paimons_are_found_where_paimon_puts_them(tmp_path: Path, naming: Naming) -> None:
    """And nothing else: no young file, no other name, no other folder, and no table below the table."""
    wanted = {
        f"dt=a/bucket-0/{DATA}",
        f"manifest/manifest-{uuid.UUID(int=2)}-0",
        f"index/index-{uuid.UUID(int=2)}-0",
        f"statistics/stat-{uuid.UUID(int=2)}-0",
        f"snapshot/.snapshot-3.{uuid.UUID(int=2)}.tmp",
    }
    for path in wanted:
        put(tmp_path, path)
    for path in (
        "dt=a/bucket-0/notes.parquet",
        f"dt=a/{DATA}",
        DATA,
        f"bucket-0/{DATA}",
        f"hr=1/bucket-0/{DATA}",
        f"dt=a/bucket-0/sub/{DATA}",
        f"dt=a/hr=1/bucket-0/{DATA}",
        f"service/{DATA}",
        f"_lakewarden/{DATA}",
        f"branch/branch-b/manifest/manifest-{uuid.UUID(int=2)}-0",
        f"other.db/t/bucket-0/{DATA}",
        "snapshot/snapshot-1",
        "schema/schema-0",
        "consumer/consumer-a",
    ):
        put(tmp_path, path)
    put(tmp_path, f"dt=b/bucket-0/{DATA}", days=2)
    assert found(tmp_path, naming) == wanted


def test_links_are_neither_followed_nor_found(tmp_path: Path, naming: Naming) -> None:
    """They may lead to the files of another table."""
    elsewhere = put(tmp_path, f"elsewhere/bucket-0/{DATA}")
    table = tmp_path / "table"
    (table / "dt=a" / "bucket-0").mkdir(parents=True)
    (table / "dt=a" / "bucket-0" / DATA).symlink_to(elsewhere)
    (table / "dt=b").symlink_to(elsewhere.parent.parent)
    (table / "dt=a" / "bucket-1").symlink_to(elsewhere.parent)
    assert found(table, naming) == found(tmp_path / "none", naming) == set()


@pytest.mark.parametrize("change", ["content", "again", "gone", "link", "folder", "linked folder"])
def test_a_file_that_has_changed_since_it_was_listed_is_another_one(
    tmp_path: Path, naming: Naming, change: str
) -> None:
    file = put(tmp_path, f"dt=a/bucket-0/{DATA}")
    [one] = listed(str(tmp_path), naming, before=NOW).old
    assert is_still(one, str(tmp_path))
    match change:
        case "content":
            file.write_text("another")
        case "again":
            put(tmp_path, f"dt=a/bucket-0/{DATA}.new").rename(file)
        case "gone":
            file.unlink()
        case "link":
            file.rename(tmp_path / "other")
            file.symlink_to(tmp_path / "other")
        case "folder":
            file.unlink()
            file.mkdir()
        case _:
            file.parent.rename(tmp_path / "other")
            file.parent.symlink_to(tmp_path / "other")
    assert not is_still(one, str(tmp_path))


# The folder of Lakewarden below a table.


def test_the_clock_of_the_disk_is_told_by_a_file_that_is_gone_again(tmp_path: Path) -> None:
    """On a mounted disk it is the server's, and not that of this machine."""
    assert abs(disk_clock(str(tmp_path)) - datetime.now(UTC)) < timedelta(minutes=1)
    assert list((tmp_path / "_lakewarden").iterdir()) == []


def test_a_file_is_written_whole_in_the_place_of_the_one_before(tmp_path: Path) -> None:
    """Nothing else is left, also if a killed run has left its scratch file."""
    (tmp_path / "a.next").write_bytes(b"half")
    for content in (b"one", b"two"):
        write_whole(str(tmp_path / "a"), content)
        assert (tmp_path / "a").read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


# A marker appears whole, and what killed runs have left of one goes.

RUN = "0123456789abcdef"


def test_a_marker_is_written_and_renewed_and_nothing_else_is_left(tmp_path: Path) -> None:
    """Under another name first, so that no reader finds a part of it."""
    for content in (b"{}", b'{"creationTime": 1}'):
        written_whole(str(tmp_path), content, run=RUN)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"_SUCCESS": content}


def test_what_killed_runs_have_left_goes_and_no_file_of_another_program(tmp_path: Path) -> None:
    """Also what this very run has left before it was started again. A link in its place is not followed."""
    for run in (RUN, "f" * 16):
        (tmp_path / f"._SUCCESS.{run}.tmp").write_bytes(b"{")
    others = [f"._SUCCESS.{uuid.uuid4()}.tmp", "._SUCCESS.old.tmp", ".data.tmp", f"._SUCCESSES.{RUN}.tmp"]
    for name in others:
        (tmp_path / name).touch()
    (tmp_path / f"._SUCCESS.{'a' * 16}.tmp").symlink_to(tmp_path / ".data.tmp")
    written_whole(str(tmp_path), b"{}", run=RUN)
    assert {file.name for file in tmp_path.iterdir()} == {"_SUCCESS", *others, f"._SUCCESS.{'a' * 16}.tmp"}
    with pytest.raises(FileNotFoundError):
        written_whole(str(tmp_path / "gone"), b"{}", run=RUN)
    assert not (tmp_path / "gone").exists()
