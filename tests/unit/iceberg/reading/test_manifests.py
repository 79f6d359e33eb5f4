"""What is read of manifests, in every version of the format and from every writer."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from lakewarden.planners.formats.iceberg.metadata.digests import Digest, key_of
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, files_of, manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.manifests import Content, ContentFile, read_manifest_list
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError, PartitionField
from lakewarden.planners.formats.iceberg.metadata.partitions import partition_path
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg_look import files_in, look, view_of
from tests.support.iceberg_table import EQUALITY_DELETES, POSITION_DELETES, IcebergTable

STORAGE = LocalStorage()
STEPS = st.lists(
    st.sampled_from(["append", "two", "delete", "drop", "rewrite", "manifests", "back", "look"]), max_size=9
)


def live(table: IcebergTable) -> list[ContentFile]:
    """Return the files of the current snapshot, as we read them."""
    metadata = read_table(str(table.metadata_file), STORAGE)
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    return [file for file in files_of(manifests_of(snapshot, STORAGE), metadata, STORAGE) if file.is_live]


def take(table: IcebergTable, step: str) -> None:
    """Let something happen to the table, if it makes sense now."""
    files = table.live()
    match step:
        case "append":
            table.append()
        case "two":
            table.append(table.file(1), table.file(2))
        case "delete" if table.version > 1:
            table.commit("delete", add=[table.file(0, content=POSITION_DELETES)])
        case "drop" if files:
            table.commit("delete", remove=files[:1])
        case "rewrite" if any(file.p == 0 for file in files):
            table.rewrite()
        case "manifests" if files:
            table.rewrite_manifests()
        case "back" if table.version > 1 and len(table.snapshots) > 1:
            table.roll_back(min(table.snapshots))
        case _:
            pass


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS, version=st.sampled_from([1, 2, 3]))
def test_whatever_was_committed_the_files_are_those_that_pyiceberg_finds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], version: int
) -> None:
    """Each with its size and its rows, whether every commit was looked at or only the last."""
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips", version=version)
    seen = look(table)
    for step in steps:
        take(table, step)
        seen = look(table, previous=seen) if step == "look" else seen

    found = StaticTable.from_metadata(str(table.metadata_file)).inspect.files()

    theirs = zip(*(found[column].to_pylist() for column in _COLUMNS), strict=True)
    told = sorted((key_of(path), content, size, records) for path, content, size, records in theirs)
    for observation in (look(table), look(table, previous=seen)):
        ours = ((f.key, int(f.content), f.size, f.records) for f in files_in(observation))
        assert sorted(ours) == told


_COLUMNS = ("file_path", "content", "file_size_in_bytes", "record_count")


def test_an_added_file_has_the_sequence_number_of_its_manifest(tmp_path: Path) -> None:
    """Which is not known when the manifest is written, and which it keeps when the manifests are written anew."""
    table = IcebergTable(tmp_path / "trips")
    first, second = table.append(), table.append()
    as_added = [(file.snapshot, file.sequence) for file in live(table)]
    table.rewrite_manifests()
    assert as_added == [(file.snapshot, file.sequence) for file in live(table)] == [(first, 1), (second, 2)]


def test_version_1_knows_no_sequence_numbers(tmp_path: Path) -> None:
    """All of its files are data, and of sequence number zero."""
    table = IcebergTable(tmp_path / "trips", version=1)
    added = table.append()
    (file,) = live(table)
    assert (file.sequence, file.snapshot, file.content) == (0, added, Content.DATA)


def test_a_delete_file_tells_for_which_data_file_it_is(tmp_path: Path) -> None:
    """By the field for that, or by equal bounds of the paths that it holds. One of many files says neither."""
    table = IcebergTable(tmp_path / "trips", version=3)
    data = table.file()
    table.append(data)
    table.commit(
        "delete",
        add=[
            table.file(content=POSITION_DELETES, format="PUFFIN", references=data.path),
            table.file(content=POSITION_DELETES, bounds_name=data.path),
            table.file(content=POSITION_DELETES),
            table.file(content=EQUALITY_DELETES, bounds_name=data.path),
        ],
    )
    seen = sorted((f for f in files_in(look(table)) if f.content is not Content.DATA), key=lambda f: f.records)
    assert [file.references for file in seen] == [key_of(data.path), key_of(data.path), None, None]
    assert [file.is_vector for file in seen] == [True, False, False, False]
    assert [file.content for file in seen] == [Content.POSITION_DELETES] * 3 + [Content.EQUALITY_DELETES]


def test_partitions_of_an_older_spec_are_called_by_its_names(tmp_path: Path) -> None:
    """Files stay in the partition of the spec under which they were written."""
    table = IcebergTable(tmp_path / "trips")
    table.append(table.file(7))
    renamed = {"name": "part", "transform": "identity", "source-id": 2, "field-id": 1000}
    by_month = {"name": "p_month", "transform": "month", "source-id": 2, "field-id": 1001}
    table.specs += [{"spec-id": 1, "fields": [renamed, by_month]}, {"spec-id": 2, "fields": []}]
    table.commit("append", add=[table.file(13)], spec=1)
    table.commit("append", add=[table.file(None)], spec=1)
    table.commit("append", add=[table.file()], spec=2)
    assert [(file.spec, file.partition) for file in files_in(look(table))] == [
        (0, "p=7"),
        (1, "part=13/p_month=1971-02"),
        (1, "part=null/p_month=null"),
        (2, ""),
    ]


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour", "identity"])
@pytest.mark.parametrize("p", [2**31 - 1, -(2**31)])
def test_an_event_time_that_no_calendar_knows_stops_no_service(tmp_path: Path, transform: str, p: int) -> None:
    """One row of the year 238,000 once stopped all of them, with the advice to give up newer rows. It is told as a
    number, and rewritten like others.
    """
    table = IcebergTable(tmp_path / "trips")
    table.specs[0]["fields"][0]["transform"] = transform
    for _ in range(6):
        table.append(table.file(p))
    view = view_of(table)
    assert view.faults == ()
    assert view.backlogs[Service.COMPACTION].files == 6


_LOGICAL = [
    None,
    "date",
    *(f"{kind}-{unit}" for kind in ("timestamp", "local-timestamp") for unit in ("millis", "micros", "nanos")),
    "time-millis",
    "time-micros",
]


@given(
    value=st.integers(-(2**63), 2**63 - 1),
    transform=st.sampled_from(["identity", "year", "month", "day", "hour", "void", "truncate[10]"]),
    logical=st.sampled_from(_LOGICAL),
)
def test_every_number_has_a_partition_of_a_name(value: int, transform: str, logical: str | None) -> None:
    """Whatever it stands for; and the next number has another one."""
    field = PartitionField(field_id=1000, name="p", transform=transform)
    kinds = {} if logical is None else {"p": {"type": "long", "logicalType": logical}}
    names = {partition_path({"p": number}, [field], kinds) for number in (value, value + 1)}
    assert len(names) == 2
    assert all(name.startswith("p=") and len(name) > 2 for name in names)


@pytest.mark.parametrize("gone", [True, False])
def test_nobody_is_advised_to_give_up_rows_for_a_manifest(tmp_path: Path, gone: bool) -> None:
    """A snapshot without the manifest has fewer rows. What only we cannot read is no reason to touch the table."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    (manifest,) = table.metadata.glob("*-m0.avro")
    manifest.write_bytes(b"Obj")
    if gone:
        manifest.unlink()
    (fault,) = view_of(table).faults
    assert "backup" in fault
    assert ("if other engines read the table" in fault) is not gone
    assert "roll" not in fault
    assert "go back" not in fault


def test_a_manifest_that_is_no_avro_file_is_named(tmp_path: Path) -> None:
    """A half-written one, too, and one that is not there."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    (manifest,) = table.metadata.glob("*-m0.avro")
    whole = manifest.read_bytes()
    for broken in (b"", b"nonsense", whole[:-20]):
        manifest.write_bytes(broken)
        with pytest.raises(CorruptMetadataError, match=manifest.name):
            live(table)
    manifest.unlink()
    with pytest.raises(VanishedError, match=manifest.name):
        live(table)


def test_an_avro_file_of_something_else_is_no_manifest_list(tmp_path: Path) -> None:
    """It has the right form, and none of the fields."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    (manifest,) = table.metadata.glob("*-m0.avro")
    with pytest.raises(CorruptMetadataError, match="no manifest list"):
        read_manifest_list(manifest.read_bytes(), path=str(manifest))


def test_a_digest_tells_files_from_the_ones_that_are_gone(tmp_path: Path) -> None:
    """Only live files are kept; of the removed ones their partitions are."""
    table = IcebergTable(tmp_path / "trips")
    kept, gone = table.file(1), table.file(2)
    table.append(kept, gone)
    removing = table.commit("delete", remove=[gone])
    metadata = read_table(str(table.metadata_file), STORAGE)
    snapshot = metadata.by_id[removing]
    (manifest,) = manifests_of(snapshot, STORAGE)
    digest = Digest(files_of([manifest], metadata, STORAGE), spec=0)
    assert [file.key for file in digest.live()] == [key_of(kept.path)]
    assert (len(digest), digest.removed_from, digest.touched_by(removing)) == (1, frozenset({"p=2"}), frozenset())
