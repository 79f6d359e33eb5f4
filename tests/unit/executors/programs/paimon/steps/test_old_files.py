"""What a listing of a table's folder takes for a possible orphan."""

from __future__ import annotations

import os
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakewarden.executors.programs.paimon.steps.old_files import OldFile, is_still, listed
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
    assert found(table, naming) == set()


@pytest.mark.parametrize("change", ["content", "again", "gone", "link", "folder", "linked folder"])
def test_a_file_that_has_changed_since_it_was_listed_is_another_one(
    tmp_path: Path, naming: Naming, change: str
) -> None:
    """It is not deleted."""
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


def test_a_table_without_folders_has_no_orphans(tmp_path: Path, naming: Naming) -> None:
    """A folder that is not there is empty."""
    assert listed(str(tmp_path), naming, before=NOW).old == []
    assert not is_still(OldFile(path=f"dt=a/bucket-0/{DATA}", size=1, modified_ns=1, inode=1), str(tmp_path))
