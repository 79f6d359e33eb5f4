"""What is read of a metadata file, and what is said of one that is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from lakewarden.planners.formats.iceberg.metadata import files
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import BrokenOffError, CorruptMetadataError, TableMetadata
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg_table import IcebergTable

STORAGE = LocalStorage()


def read(table: IcebergTable) -> TableMetadata:
    return read_table(str(table.metadata_file), STORAGE)


def rewritten(table: IcebergTable, **changes: Any) -> TableMetadata:
    """Change keys of the newest metadata file (None takes one away), and read it."""
    raw = {**json.loads(table.metadata_file.read_bytes()), **changes}
    content = {key: value for key, value in raw.items() if value is not None}
    table.metadata_file.write_text(json.dumps(content))
    return read(table)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("compressed", [False, True])
def test_every_version_is_read_as_pyiceberg_reads_it(tmp_path: Path, version: int, compressed: bool) -> None:
    """Snapshots with their parents and counts, the current one, the specs: compressed or not."""
    table = IcebergTable(tmp_path / "trips", version=version, compressed=compressed)
    table.append()
    table.append(table.file(1), table.file(2))

    ours, theirs = read(table), StaticTable.from_metadata(str(table.metadata_file)).metadata

    assert [(s.id, s.parent, round(s.at.timestamp() * 1000)) for s in ours.snapshots] == [
        (s.snapshot_id, s.parent_snapshot_id, s.timestamp_ms) for s in theirs.snapshots
    ]
    assert (ours.current, ours.uuid, ours.location) == (
        theirs.current_snapshot_id, str(theirs.table_uuid), theirs.location,
    )  # fmt: skip
    assert [s.count("added-data-files") for s in ours.snapshots] == [1, 2]
    assert [f.name for f in ours.specs[0]] == [f.name for f in theirs.partition_specs[0].fields]


def test_a_table_without_a_snapshot_has_none(tmp_path: Path) -> None:
    """However its writer says so."""
    table = IcebergTable(tmp_path / "trips")
    assert read(table).current_snapshot is None
    assert rewritten(table, **{"current-snapshot-id": None}).current_snapshot is None


def test_main_is_the_current_snapshot_though_nobody_names_it(tmp_path: Path) -> None:
    """Version 1 has no refs."""
    table = IcebergTable(tmp_path / "trips", version=1)
    head = table.append()
    (main,) = read(table).refs
    assert (main.name, main.is_branch, main.snapshot) == ("main", True, head)


def test_a_spec_of_version_1_may_stand_alone(tmp_path: Path) -> None:
    """The oldest tables have one spec and no list of specs."""
    table = IcebergTable(tmp_path / "trips", version=1)
    assert [f.name for f in rewritten(table, **{"partition-specs": None}).specs[0]] == ["p"]


def test_ancestors_end_where_a_snapshot_has_expired(tmp_path: Path) -> None:
    """What it was made from is not told any more."""
    table = IcebergTable(tmp_path / "trips")
    first, second, third = (table.append() for _ in range(3))
    table.expire(second)
    metadata = read(table)
    assert [one.id for one in metadata.ancestors(third)] == [third]
    assert [one.id for one in metadata.ancestors(first)] == [first]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format-version": 2}',
        b"\x1f\x8b\x08broken",
        b'{"format-version": "two"}',
        b"\xff\xfe",
    ],
)
def test_a_metadata_file_that_is_none_is_named(tmp_path: Path, content: bytes) -> None:
    """Whatever is wrong with it, it is one error, for this table alone."""
    file = tmp_path / "v1.metadata.json"
    file.write_bytes(content)
    with pytest.raises(CorruptMetadataError, match=r"v1\.metadata\.json"):
        read_table(str(file), STORAGE)


def test_a_compressed_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    """Wherever the damage is."""
    table = IcebergTable(tmp_path / "trips", compressed=True)
    whole = table.metadata_file.read_bytes()
    for at in range(10, len(whole), 40):
        table.metadata_file.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with pytest.raises(CorruptMetadataError, match=table.metadata_file.name):
            read(table)


def test_a_head_that_is_not_there_is_not_taken_for_an_empty_table(tmp_path: Path) -> None:
    """All of its files would look like orphans."""
    table = IcebergTable(tmp_path / "trips")
    head = table.append()
    broken: list[dict[str, Any]] = [
        {"snapshots": []},
        {"snapshots": [], "refs": {}},
        {"current-snapshot-id": head + 1, "refs": {}},
    ]
    for changes in broken:
        with pytest.raises(CorruptMetadataError, match="which is not there"):
            rewritten(table, **changes)
        table.save()
    with pytest.raises(CorruptMetadataError, match="kept is snapshot 7"):
        rewritten(table, refs={"kept": {"snapshot-id": 7, "type": "tag"}})


def test_a_snapshot_without_a_manifest_list_says_how_to_get_one(tmp_path: Path) -> None:
    """The oldest writers named manifests in the metadata."""
    table = IcebergTable(tmp_path / "trips", version=1)
    table.append()
    line = dict(table.snapshots[table.current or 0].line)
    line["manifests"] = [line.pop("manifest-list")]
    metadata = rewritten(table, snapshots=[line])
    assert metadata.current_snapshot is not None
    with pytest.raises(CorruptMetadataError, match="commit to the table once"):
        manifests_of(metadata.current_snapshot, STORAGE)


class Asked(LocalStorage):
    """Remembers where it was asked for files, and has none."""

    def __init__(self) -> None:
        self.locations: list[str] = []

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        self.locations.append(location)
        raise FileNotFoundError(location)


@pytest.mark.parametrize(
    ("spelled", "asked"),
    [
        ("s3a://lake/trips/metadata/v1.metadata.json", "s3://lake/trips/metadata/v1.metadata.json"),
        ("abfs://lake@here/trips/v1.metadata.json", "abfss://lake@here/trips/v1.metadata.json"),
        ("file:/lake/trips/v1.metadata.json", "/lake/trips/v1.metadata.json"),
    ],
)
def test_a_storage_is_asked_in_its_own_spelling(spelled: str, asked: str) -> None:
    """Metadata names files as the table's writers spelled them."""
    storage = Asked()
    with pytest.raises(TemporaryError, match="not there"):
        read_table(spelled, storage)
    assert storage.locations == [asked]


@pytest.mark.parametrize("spelling", ["file:{}", "file://{}", "{}"])
def test_files_are_found_however_writers_spell_their_places(tmp_path: Path, spelling: str) -> None:
    """Hadoop writes `file:/x`, others `file:///x` or the path alone."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    line = dict(table.snapshots[table.current or 0].line)
    line["manifest-list"] = spelling.format(line["manifest-list"])
    metadata = rewritten(table, snapshots=[line])
    assert metadata.current_snapshot is not None
    assert len(manifests_of(metadata.current_snapshot, STORAGE)) == 1


def test_a_location_that_is_no_whole_address_is_named_with_its_file_and_a_remedy(tmp_path: Path) -> None:
    """A warehouse with a relative path writes such tables: they lie somewhere else for each process."""
    table = IcebergTable(tmp_path / "trips")
    with pytest.raises(PermanentError, match=r"metadata\.json says that the table lies in 'data/trips'.*absolute path"):
        rewritten(table, location="data/trips")


_STEPS = st.lists(st.sampled_from(["append", "expire", "roll back", "manifests", "property"]), max_size=8)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS, compressed=st.booleans())
def test_what_an_earlier_version_told_is_told_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], compressed: bool
) -> None:
    """Whatever was done in between, and nothing of it is read twice as long as snapshots are only added."""
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips", compressed=compressed)
    table.append()
    known = read(table)
    for step in steps:
        take(table, step)
        fresh = read(table)
        again = read_table(str(table.metadata_file), STORAGE, told=known.told)
        assert again == fresh
        assert again.told == fresh.told
        if step in ("append", "manifests"):
            assert all(one is other for one, other in zip(again.snapshots, known.snapshots, strict=False))
        known = again


def take(table: IcebergTable, step: str) -> None:
    """Let something happen to the table, if it makes sense now."""
    match step:
        case "append":
            table.append()
        case "manifests":
            table.rewrite_manifests()
        case "expire" if len(table.snapshots) > 1:
            table.expire(next(one for one in table.snapshots if one != table.current))
        case "roll back":
            table.roll_back(min(table.snapshots))
        case "property":
            table.properties["snapshots"] = '"snapshots":[]'
            table.save()


@pytest.mark.parametrize("compressed", [False, True])
def test_a_metadata_file_too_large_to_be_held_is_read_in_parts(
    tmp_path: Path, compressed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table that needs expiry most has the largest: it was refused above 512 MiB."""
    table = IcebergTable(tmp_path / "trips", compressed=compressed)
    for _ in range(9):
        table.append()
    whole = read(table)
    monkeypatch.setattr(files, "_AT_ONCE", 100)
    assert read(table) == whole
    table.metadata_file.write_bytes(table.metadata_file.read_bytes()[:-40])
    with pytest.raises(BrokenOffError):
        read(table)
    table.metadata_file.unlink()
    with pytest.raises(VanishedError):
        read(table)
