"""The reader of Hudi tables if hudi-rs cannot read the metadata table."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hudi import HudiReadOptions, HudiTable

from lakewarden.demo.formats.hudi.reader import without_metadata_table

FIXTURES = Path(__file__).parents[4] / "fixtures" / "hudi"


@pytest.mark.parametrize("name", ["mor_v8", "mor_v9", "cow_v9"])
def test_without_its_metadata_table_a_table_has_the_same_files_and_rows(tmp_path: Path, name: str) -> None:
    """The table itself is not changed."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    before = sorted(str(path) for path in tmp_path.rglob("*"))

    with without_metadata_table(tmp_path) as listed:
        assert not (listed / ".hoodie" / "metadata").exists()
        assert _contents(listed) == _contents(tmp_path)

    assert sorted(str(path) for path in tmp_path.rglob("*")) == before
    assert not listed.exists()


def _contents(folder: Path) -> tuple[list[tuple[str, str, list[str]]], int]:
    table = HudiTable(str(folder))
    slices = table.get_file_slices(HudiReadOptions())
    files = sorted((one.partition_path, one.base_file_name, sorted(one.log_file_names)) for one in slices)
    return files, sum(batch.num_rows for batch in table.read(HudiReadOptions()))
