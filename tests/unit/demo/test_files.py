"""The count of the files in a table's data folder."""

from __future__ import annotations

from pathlib import Path

from lakewarden.demo.formats.hudi.demo import count_file_versions
from lakewarden.demo.formats.iceberg.demo import count_data_files


def test_base_files_of_partitions_count_and_nothing_else(tmp_path: Path) -> None:
    """Log files, checksums, partition metadata and everything below `.hoodie` are not counted."""
    for name in (
        "north/00000000-aaaa-0_0-1-2_20260101120000000.parquet",
        "north/00000000-aaaa-0_0-3-4_20260101120100000.parquet",
        "a/nested=1/00000000-bbbb-0_0-1-2_20260101120000000.parquet",
        "north/.00000000-aaaa-0_0-1-2_20260101120000000.parquet.crc",
        "north/.00000000-aaaa-0_20260101120000000.log.1_0-3-4",
        "north/.hoodie_partition_metadata",
        ".hoodie/metadata/files/files-0000-0_0-1-2_20260101120000000.parquet",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert count_file_versions(tmp_path) == 3


def test_a_table_that_is_not_there_yet_has_none(tmp_path: Path) -> None:
    """The demo counts before the writer has begun."""
    assert count_file_versions(tmp_path / "none") == 0


def test_the_parquet_files_of_an_iceberg_table_count_and_nothing_else(tmp_path: Path) -> None:
    """Hadoop's checksums and metadata are not counted."""
    for name in (
        "data/region=north/00000-1-a-00001.parquet",
        "data/region=north/00000-1-a-00001-deletes.parquet",
        "data/region=north/.00000-1-a-00001.parquet.crc",
        "data/region=north/.00000-1-b-00001.parquet",
        "metadata/v1.metadata.json",
        "metadata/stats.parquet",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert count_data_files(tmp_path) == 2
    assert count_data_files(tmp_path / "none") == 0
