"""The content of a metadata file, and the error for a file that is none."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from lakewarden.planners.formats.iceberg.metadata import files
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import (
    BrokenOffError,
    CorruptMetadataError,
    TableMetadata,
    waits,
)
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_table import IcebergTable

STORAGE = LocalStorage()


def read(table: IcebergTable) -> TableMetadata:
    return read_table(str(table.metadata_file), STORAGE)


def rewritten(table: IcebergTable, **changes: Any) -> TableMetadata:
    """Change keys of the newest metadata file (None removes a key), and read it."""
    raw = {**json.loads(table.metadata_file.read_bytes()), **changes}
    content = {key: value for key, value in raw.items() if value is not None}
    table.metadata_file.write_text(json.dumps(content))
    return read(table)


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("compressed", [False, True])
def test_every_version_is_read_as_pyiceberg_reads_it(tmp_path: Path, version: int, compressed: bool) -> None:
    """The test compares the snapshots with their parents and counts, the current snapshot and the specs, compressed or
    not.
    """
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
    content = table.metadata_file.read_bytes()
    assert ours.size == len(gzip.decompress(content) if compressed else content)


def test_a_table_without_a_snapshot_has_none(tmp_path: Path) -> None:
    """This holds for every way in which writers express it."""
    table = IcebergTable(tmp_path / "trips")
    assert read(table).current_snapshot is None
    assert rewritten(table, **{"current-snapshot-id": None}).current_snapshot is None


def test_main_is_the_current_snapshot_even_without_a_name(tmp_path: Path) -> None:
    """Version 1 has no refs."""
    table = IcebergTable(tmp_path / "trips", version=1)
    head = table.append()
    (main,) = read(table).refs
    assert (main.name, main.is_branch, main.snapshot) == ("main", True, head)


def test_the_type_of_a_name_is_read_in_any_case(tmp_path: Path) -> None:
    """Iceberg does so. A branch that was taken for a tag would not keep the snapshots before its head."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    table.refs["main"]["type"] = "BRANCH"
    table.save()
    assert [ref.is_branch for ref in read(table).refs] == [True]
    table.refs["main"]["type"] = "bookmark"
    table.save()
    with pytest.raises(CorruptMetadataError, match="neither a branch nor a tag"):
        read(table)


def test_a_spec_of_version_1_may_stand_alone(tmp_path: Path) -> None:
    """The oldest tables have one spec, and no list of specs."""
    table = IcebergTable(tmp_path / "trips", version=1)
    assert [f.name for f in rewritten(table, **{"partition-specs": None}).specs[0]] == ["p"]


def test_ancestors_end_where_a_snapshot_has_expired(tmp_path: Path) -> None:
    """The metadata does not contain its parent any more."""
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
    """Every kind of damage raises the same error, for this table alone."""
    file = tmp_path / "v1.metadata.json"
    file.write_bytes(content)
    with pytest.raises(CorruptMetadataError, match=r"v1\.metadata\.json"):
        read_table(str(file), STORAGE)


def test_a_compressed_file_that_is_damaged_is_named(tmp_path: Path) -> None:
    """This holds for damage in any place."""
    table = IcebergTable(tmp_path / "trips", compressed=True)
    whole = table.metadata_file.read_bytes()
    for at in range(10, len(whole), 40):
        table.metadata_file.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
        with pytest.raises(CorruptMetadataError, match=table.metadata_file.name):
            read(table)


def test_a_file_by_zstd_is_read_and_one_that_breaks_off_is_known_as_such(tmp_path: Path) -> None:
    """iceberg-go writes such files (`write.metadata.compression-codec=zstd`). A killed writer leaves a part of one."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    plain = read(table)
    frames = [pa.compress(part, codec="zstd", asbytes=True) for part in halves(table.metadata_file.read_bytes())]
    file = table.metadata / "00001-a.zstd.metadata.json"
    file.write_bytes(b"".join(frames))
    assert replace(read_table(str(file), STORAGE), file=plain.file) == plain
    for size in (*range(len(frames[0])), len(frames[0]) + 9):
        file.write_bytes(b"".join(frames)[:size])
        with pytest.raises(BrokenOffError, match=file.name):
            read_table(str(file), STORAGE)
    file.write_bytes(frames[0][:12] + bytes([frames[0][12] ^ 255]) + frames[0][13:])
    with pytest.raises(CorruptMetadataError, match=file.name):
        read_table(str(file), STORAGE)


def halves(content: bytes) -> tuple[bytes, bytes]:
    middle = len(content) // 2
    return content[:middle], content[middle:]


def test_a_head_that_is_not_there_is_not_taken_for_an_empty_table(tmp_path: Path) -> None:
    """Otherwise all its files would look like orphans."""
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
    """Records the locations that it was asked for, and has no files."""

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
    """Metadata names files in the spelling of the table's writers."""
    storage = Asked()
    with pytest.raises(TemporaryError, match="not there"):
        read_table(spelled, storage)
    assert storage.locations == [asked]


@pytest.mark.parametrize("spelling", ["file:{}", "file://{}", "{}"])
def test_files_are_found_however_writers_spell_their_places(tmp_path: Path, spelling: str) -> None:
    """Hadoop writes `file:/x`; others write `file:///x` or only the path."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    line = dict(table.snapshots[table.current or 0].line)
    line["manifest-list"] = spelling.format(line["manifest-list"])
    metadata = rewritten(table, snapshots=[line])
    assert metadata.current_snapshot is not None
    assert len(manifests_of(metadata.current_snapshot, STORAGE)) == 1


def test_a_location_that_is_no_whole_address_is_named_with_its_file_and_a_remedy(tmp_path: Path) -> None:
    """A warehouse with a relative path writes such tables. Their place depends on the process."""
    table = IcebergTable(tmp_path / "trips")
    with pytest.raises(PermanentError, match=r"metadata\.json says that the table lies in 'data/trips'.*absolute path"):
        rewritten(table, location="data/trips")


_STEPS = st.lists(st.sampled_from(["append", "expire", "roll back", "manifests", "property"]), max_size=8)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_STEPS, compressed=st.booleans())
def test_what_an_earlier_version_told_is_told_again(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], compressed: bool
) -> None:
    """This holds after any changes. Nothing is read twice while snapshots are only added."""
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips", compressed=compressed)
    table.append()
    known = read(table)
    for step in steps:
        take(table, step)
        fresh = read(table)
        again = read_table(str(table.metadata_file), STORAGE, told=known.told)
        assert again == fresh
        assert again.told is not None
        assert fresh.told is not None
        assert again.told._replace(main=()) == fresh.told._replace(main=())
        for ours, theirs in ((again, fresh), (known, known)):
            assert ours.ancestors(ours.current) == tuple(theirs._lineage(theirs.current))
        assert again.writes() == fresh.writes()
        assert again.maintenance() == fresh.maintenance()
        if step in ("append", "manifests"):
            assert all(one is other for one, other in zip(again.snapshots, known.snapshots, strict=False))
        known = again


def take(table: IcebergTable, step: str) -> None:
    """Apply a change to the table, if it is possible now."""
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
    """A table that needs expiry most has the largest file. Above 512 MiB it was refused."""
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


# A commit is repeated as often as the table's own properties say.


def test_by_default_it_is_four_times_each_after_twice_the_pause() -> None:
    """Iceberg does the same. A property that is no number is ignored."""
    assert list(waits({})) == [0, 0.1, 0.2, 0.4, 0.8]
    assert list(waits({"commit.retry.num-retries": "many"})) == [0, 0.1, 0.2, 0.4, 0.8]


def test_a_table_may_ask_for_more_or_none() -> None:
    """Each of the properties has its own effect."""
    assert list(waits({"commit.retry.num-retries": "0"})) == [0]
    patient = {"commit.retry.num-retries": "6", "commit.retry.min-wait-ms": "1000", "commit.retry.max-wait-ms": "3000"}
    assert list(waits(patient)) == [0, 1, 2, 3, 3, 3, 3]
    assert list(waits({**patient, "commit.retry.total-timeout-ms": "6500"})) == [0, 1, 2, 3]


NUMBERS = st.integers(0, 2**63 - 1).map(str)


@given(st.dictionaries(st.sampled_from(["num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms"]), NUMBERS))
def test_no_property_makes_it_wait_longer_than_the_table_allows(asked: dict[str, str]) -> None:
    """For any values the retries end, and the sum of the pauses is within the timeout."""
    found = list(waits({f"commit.retry.{key}": value for key, value in asked.items()}))
    assert len(found) - 1 <= min(int(asked.get("num-retries", "4")), 1000)
    assert sum(found) * 1000 <= int(asked.get("total-timeout-ms", "1800000")) * 1.0001
