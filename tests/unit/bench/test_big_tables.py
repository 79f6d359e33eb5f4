"""The large tables of the bench are valid Iceberg tables."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.table import StaticTable

from bench.observing.big_iceberg_table import BigIcebergTable


def test_another_reader_finds_what_was_written(tmp_path: Path) -> None:
    """The reader finds every snapshot with its files, including those of merged manifests."""
    written = BigIcebergTable(tmp_path / "large", snapshots=130, files=520, partitions=7)
    written.append()
    table = StaticTable.from_metadata(str(written.metadata_file))
    for at, snapshot in (
        (0, table.metadata.snapshots[0]),
        (99, table.metadata.snapshots[99]),
        (130, table.current_snapshot()),
    ):
        assert snapshot is not None
        entries = [one for manifest in snapshot.manifests(table.io) for one in manifest.fetch_manifest_entry(table.io)]
        assert len({one.data_file.file_path for one in entries}) == len(entries) == 4 * (at + 1)
        assert {one.sequence_number for one in entries} == set(range(1, at + 2))
