"""Where files of an Iceberg table may be deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from lakewarden.planners.formats.iceberg.deletion.own_folders import Ground
from lakewarden.planners.formats.iceberg.deletion.reachable import DeletableFile, FileKind
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_values import a_metadata
from tests.unit.planners.formats.test_shared_folder import MAKE

NAME = "00000-0-9c12d441-03fe-4693-9a96-a0705ddf69c1-00001.parquet"
OWN, THEIRS = (
    DeletableFile(FileKind.CONTENT, f"{folder}/data/{NAME}") for folder in ("s3a://lake/trips", "s3://lake/trips2")
)


def ground(location: str = "s3://lake/trips", **options: Any) -> Ground:
    return Ground(a_metadata(location=location), IcebergTableOptions(**options), LocalStorage())


def test_a_file_outside_the_table_ends_a_clean_before_anything_expires() -> None:
    """If it were left without a message it would stay for ever. If it were deleted it might belong to another table."""
    with pytest.raises(
        PermanentError, match=r"1 files .* outside its folder s3://lake/trips, .*, s3://lake/trips2/data/00000"
    ):
        ground().own([OWN, THEIRS])


def test_a_file_outside_is_left_where_its_owner_says_so() -> None:
    """An example is a table after `add_files`."""
    assert ground(outside="leave").own([OWN, THEIRS]) == (OWN,)


def test_a_folder_that_the_owner_names_is_the_tables() -> None:
    """The named folder may be anywhere. A file outside both folders belongs to neither."""
    with_rows = ground(folders=["s3://rows/trips/", "s3://lake/trips2"])
    assert with_rows.own([OWN, THEIRS]) == (OWN, THEIRS)
    assert "s3://rows/trips2/f" not in with_rows


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-9c12d441-03fe-4693-9a96-a0705ddf69c1-c000.snappy.parquet",
        "9c12d441-03fe-4693-9a96-a0705ddf69c1-0_0-21-14_20260101000000000.parquet",
        "data-9c12d441-03fe-4693-9a96-a0705ddf69c1-0.orc",
        *("ducklake-9c12d441-03fe-4693-9a96-a0705ddf69c1.parquet", "orders.parquet"),
    ],
)
def test_a_file_that_no_writer_of_iceberg_named_stays_unless_its_folder_is_the_tables_alone(name: str) -> None:
    """`add_files` may have taken in the files of a directory of Spark, or those of Hudi, Delta, Paimon or DuckLake."""
    taken_in = DeletableFile(FileKind.CONTENT, f"s3://lake/trips/data/{name}")
    with pytest.raises(PermanentError, match="names that no writer of Iceberg gives"):
        ground().own([OWN, taken_in])
    assert ground(outside="leave").own([OWN, taken_in]) == (OWN,)
    assert ground(folders=["s3://lake/trips/data"]).own([OWN, taken_in]) == (OWN, taken_in)


@pytest.mark.parametrize("outside", ["refuse", "leave"])
@pytest.mark.parametrize(
    "path",
    [
        "s3://lake/trips2/f",
        "s3://lake/trips/data/part-0.parquet",
        "s3://lake/trips",
        "s3://lake/trips/../trips2/f",
        "/lake/other/f",
        "file:/etc/x",
        "",
    ],
)
def test_a_list_that_names_a_foreign_file_is_none_of_ours(outside: str, path: str) -> None:
    """Every client that can write beside the metadata can write the list. Nothing on it is deleted."""
    with pytest.raises(PermanentError, match="nothing of it is deleted"):
        ground(outside=outside).require([OWN, DeletableFile(FileKind.CONTENT, path)], listed_by="x-clean-1")
    ground(outside=outside).require([OWN], listed_by="x-clean-1")


def test_a_link_does_not_lead_out(tmp_path: Path) -> None:
    """A link that leads into the table by another path is allowed."""
    (tmp_path / "t").mkdir()
    (tmp_path / "o").mkdir()
    (tmp_path / "t" / "out").symlink_to(tmp_path / "o")
    (tmp_path / "way").symlink_to(tmp_path / "t")
    local = ground(f"file://{tmp_path}/t")
    assert f"{tmp_path}/t/out/f" not in local
    assert f"file:{tmp_path}/way/data/f" in local


@pytest.mark.parametrize("folder", ["data", "s3://bucket", "/", "file:///", "s3:/x", "/a/../b"])
def test_a_folder_that_is_none_of_its_own_is_refused_at_the_start(folder: str) -> None:
    """A whole bucket belongs to more than one table."""
    with pytest.raises(ValidationError):
        IcebergTableOptions(folders=(folder,))


@pytest.mark.parametrize("other", MAKE)
def test_files_of_a_table_below_are_not_the_tables(tmp_path: Path, other: str) -> None:
    """The files of another table were added to this one (`add_files`), and it lies in a folder of this one."""
    home = tmp_path / "trips"
    MAKE[other](home / "raw")
    local = ground(str(home), outside="leave")
    assert f"{home}/raw/p=1/f.parquet" not in local
    assert f"{home}/raw/f.parquet" not in local
    assert f"{home}/data/p=1/f.parquet" in local
    assert f"{home}/more/p=1/f.parquet" in local
    assert f"{home}/p=1/f.parquet" in local
    assert f"{home}/f.parquet" in local
