"""The report: its keys, and the conditions of a successful demo."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lakewarden.demo.formats.hudi.demo import count_file_versions
from lakewarden.demo.formats.iceberg.demo import count_data_files
from lakewarden.demo.report import Range, ReaderTally, Report, ServiceTally, WriterTally

GOOD = Report(
    rows_expected=150,
    rows_found=150,
    rows_wrong=0,
    writer=WriterTally(commits=20, failures=0),
    reader=ReaderTally(queries=300, failures=0),
    services={"compaction": ServiceTally(succeeded=6), "clean": ServiceTally(succeeded=5, failed=1)},
    counted={"log_files": Range(peak=12, end=0), "file_versions": Range(peak=15, end=12)},
    promised=("compaction", "clean"),
)


def test_the_report_has_the_promised_keys(tmp_path: Path) -> None:
    """Programs read it."""
    GOOD.write(tmp_path / "report.json")

    assert json.loads((tmp_path / "report.json").read_text()) == {
        "rows_expected": 150,
        "rows_found": 150,
        "rows_wrong": 0,
        "writer": {"commits": 20, "failures": 0, "reasons": []},
        "reader": {"queries": 300, "failures": 0},
        "services": {"compaction": {"succeeded": 6, "failed": 0}, "clean": {"succeeded": 5, "failed": 1}},
        "log_files": {"peak": 12, "end": 0},
        "file_versions": {"peak": 15, "end": 12},
    }


def test_a_good_demo_has_no_shortcomings() -> None:
    """A failed run that disturbed no writer and no reader is no shortcoming."""
    assert GOOD.shortcomings() == []


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param(replace(GOOD, rows_wrong=1), id="a wrong row"),
        pytest.param(replace(GOOD, writer=WriterTally(commits=20, failures=1)), id="a failed commit"),
        pytest.param(replace(GOOD, reader=ReaderTally(queries=300, failures=1)), id="a failed query"),
        pytest.param(replace(GOOD, services={"clean": ServiceTally(succeeded=1)}), id="no compaction"),
        pytest.param(replace(GOOD, services={"compaction": ServiceTally(succeeded=1)}), id="no clean"),
    ],
)
def test_whatever_was_promised_and_not_shown_is_a_shortcoming(bad: Report) -> None:
    """Each promise is checked by itself."""
    assert len(bad.shortcomings()) == 1


def test_a_failed_commit_is_told_with_its_reason() -> None:
    """With only a number the user would have to read the logs."""
    bad = replace(GOOD, writer=WriterTally(commits=20, failures=1, reasons=["Caused by: LockTimeout: waited 60 s"]))
    assert "LockTimeout: waited 60 s" in bad.shortcomings()[0]


# The count of the files in a table's data folder.


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
