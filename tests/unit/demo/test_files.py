"""Counting what lies in a table's data folder."""

from __future__ import annotations

from pathlib import Path

from lakewarden.demo.files import count_data_files, count_file_versions


def test_base_files_of_partitions_count_and_nothing_else(tmp_path: Path) -> None:
    """Neither log files, checksums and partition metadata, nor anything below `.hoodie`."""
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
    """Neither Hadoop's checksums nor metadata."""
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
