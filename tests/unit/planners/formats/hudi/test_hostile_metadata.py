"""Crafted metadata of a Hudi table: a fault of its file, or an error that names the key."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.hudi.format import THOROUGH
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.storage import LocalStorage
from tests.support.hudi.hudi_look import look, made
from tests.support.hudi.hudi_table import HudiTable


def with_property(table: HudiTable, key: str, value: str) -> None:
    with (table.home / "hoodie.properties").open("a") as file:
        file.write(f"{key}={value}\n")


@pytest.mark.parametrize(
    "path",
    ["../../../../etc", "/etc", "a/../../..", "..", ".", "a//b", "./timeline", "timeline/", "a\\u0000b", "file:/etc",
     "s3://b/t", "%2e%2e", "a\\\\b", "a/" * 20 + "a", "n" * 300],
)  # fmt: skip
def test_a_timeline_lies_inside_its_table(tmp_path: Path, path: str) -> None:
    """Another place belongs to others. A folder without instants would look like an empty table without problems."""
    table = made(tmp_path)
    with_property(table, "hoodie.timeline.path", path)
    with pytest.raises(PermanentError, match=r"hoodie\.timeline\.path of .* names no folder inside \.hoodie"):
        look(table)


@pytest.mark.parametrize("path", ["timeline", "elsewhere", "a/b.c/D-1_2"])
def test_a_timeline_may_be_any_folder_inside(tmp_path: Path, path: str) -> None:
    """The setting exists for this."""
    table = made(tmp_path)
    with_property(table, "hoodie.timeline.path", path)
    assert read_table_properties(str(table.folder), LocalStorage()).timeline_folder == f"{table.home}/{path}"


@pytest.mark.parametrize("part", ["", "timeline", "metadata"])
def test_a_link_does_not_lead_a_timeline_out_of_its_table(tmp_path: Path, part: str) -> None:
    """The link may be the timeline itself or the folder that holds it."""
    table = made(tmp_path)
    inside = table.home / part
    inside.mkdir(exist_ok=True)
    shutil.move(inside, tmp_path / "outside")
    inside.symlink_to(tmp_path / "outside")
    with pytest.raises(PermanentError, match=r"is a link to .*outside.*, which lies outside the table"):
        look(table)


def test_a_link_inside_a_table_may_lead_where_it_wants(tmp_path: Path) -> None:
    """It belongs to the table."""
    table = made(tmp_path)
    table.timeline.rename(table.home / "moved")
    table.timeline.symlink_to(table.home / "moved")
    assert look(table).view.faults == ()


@pytest.mark.parametrize(
    "size", [10**400, 2**63, -1, -(10**70), 1e400, 1.0e300, "many", [1], {"a": 1}, True], ids=lambda size: str(size)[:9]
)
def test_a_size_that_is_none_is_a_fault_of_its_commit(tmp_path: Path, size: Any) -> None:
    """It would reach the metrics, and end the answer for all tables."""
    table = made(tmp_path)
    stat = {"fileId": "a", "path": "p0/a-0_0-1-2_20260101000000000.parquet", "fileSizeInBytes": size}
    time = table.begin_write()
    table.commit_write(time, content=json.dumps({"partitionToWriteStats": {"p0": [stat]}}).encode())
    view = look(table, format_=THOROUGH).view
    assert len(view.faults) == 1
    assert time in view.faults[0]
    assert len(view.faults[0]) < 300


def test_properties_that_are_far_too_large_are_not_read(tmp_path: Path) -> None:
    """The error names the file and its limit."""
    table = made(tmp_path)
    (table.home / "hoodie.properties").write_bytes(b"a=b\\\n" * 2**20)
    with pytest.raises(PermanentError, match=r"hoodie\.properties is larger than 1048576 bytes"):
        look(table)


@pytest.mark.parametrize("version", ["9" * 400, "9" * 5000, "²", "-1", "\\u001b[2J"])
def test_a_version_that_is_no_number_is_unknown(tmp_path: Path, version: str) -> None:
    """The same holds for text that Python takes for a digit, or refuses to convert."""
    table = made(tmp_path)
    with_property(table, "hoodie.table.version", version)
    view = look(table).view
    assert any("is unknown to Lakewarden" in one.reason and len(one.reason) < 100 for one in view.blockers)
