"""The counts of a Paimon table's folder are taken from outside."""

from __future__ import annotations

from pathlib import Path

from lakewarden.demo.formats.paimon.reader import count_data_files, count_snapshots


def test_data_files_are_those_below_a_bucket_and_snapshots_those_with_a_number(tmp_path: Path) -> None:
    """Manifests, hints and changelogs are neither."""
    for name in (
        "region=north/bucket-0/data-1.parquet",
        "region=south/bucket-1/data-2.parquet",
        "bucket-0/data-3.parquet",
        "manifest/manifest-1",
        "snapshot/snapshot-1",
        "snapshot/snapshot-12",
        "snapshot/LATEST",
        "snapshot/EARLIEST",
        "changelog/changelog-1",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert count_data_files(tmp_path) == 3
    assert count_snapshots(tmp_path) == 2
    assert count_data_files(tmp_path / "none") == count_snapshots(tmp_path / "none") == 0
