"""An update of `hoodie.properties` that broke off: Hudi goes by what is left of it, so no service may run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakewarden.planners.model.view import Blocker
from tests.support.hudi.hudi_table import HudiTable
from tests.unit.planners.formats.hudi.test_observing import made, view_of


def blocked(table: HudiTable) -> list[Blocker]:
    """Return what blocks the table because of its properties."""
    return [one for one in view_of(table).blockers if one.reason.startswith("hoodie.properties")]


def without(table: HudiTable, key: str) -> None:
    """Take a line out of the properties."""
    file = table.home / "hoodie.properties"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith(key)))


def test_a_key_that_the_backup_has_and_the_file_lacks_blocks_every_service(tmp_path: Path) -> None:
    """The file names the table and its type, and a rest of it would decide how rows are merged."""
    table = made(tmp_path)
    file = table.home / "hoodie.properties"
    shutil.copy(file, table.home / "hoodie.properties.backup")
    assert not blocked(table)
    without(table, "hoodie.table.partition.fields")
    (found,) = blocked(table)
    assert not found.services, "it is about every service"
    assert "lacks hoodie.table.partition.fields, which hoodie.properties.backup has" in found.reason
    assert "copy the backup over hoodie.properties" in str(found.remedy)
    shutil.copy(table.home / "hoodie.properties.backup", file)
    assert not blocked(table)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_merge_on_read_table_has_a_merge_mode_from_version_8_on(tmp_path: Path, version: int) -> None:
    """Without it a compaction ends with a NullPointerException. Older tables never had one."""
    table = made(tmp_path, version=version)
    without(table, "hoodie.record.merge.mode")
    assert [one.reason.split(",")[0] for one in blocked(table)] == (
        [] if version == 6 else ["hoodie.properties lacks hoodie.record.merge.mode"]
    )
