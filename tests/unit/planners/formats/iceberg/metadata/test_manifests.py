"""The content of manifests is read in every version of the format and from every writer."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import StaticTable

from lakewarden.planners.formats.iceberg.metadata.digests import ManifestDigest, key_of
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, files_of, manifests_of, read_table
from lakewarden.planners.formats.iceberg.metadata.manifests import ContentFile, FileContent, read_manifest_list
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError, PartitionField
from lakewarden.planners.formats.iceberg.metadata.partitions import partition_path
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_look import files_in, look, view_of
from tests.support.iceberg.iceberg_table import EQUALITY_DELETES, POSITION_DELETES, IcebergTable

STORAGE = LocalStorage()
STEPS = st.lists(
    st.sampled_from(["append", "two", "delete", "drop", "rewrite", "manifests", "back", "look"]), max_size=9
)


def live(table: IcebergTable) -> list[ContentFile]:
    """Return the files of the current snapshot, as Lakewarden reads them."""
    metadata = read_table(str(table.metadata_file), STORAGE)
    snapshot = metadata.current_snapshot
    assert snapshot is not None
    return [file for file in files_of(manifests_of(snapshot, STORAGE), metadata, STORAGE) if file.is_live]


def take(table: IcebergTable, step: str) -> None:
    """Apply a change to the table, if it is possible now."""
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
    """Each file has its size and its rows, whether every commit was observed or only the last."""
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
    """The number is not known when the manifest is written. The file keeps it when the manifests are rewritten."""
    table = IcebergTable(tmp_path / "trips")
    first, second = table.append(), table.append()
    as_added = [(file.snapshot, file.sequence) for file in live(table)]
    table.rewrite_manifests()
    assert as_added == [(file.snapshot, file.sequence) for file in live(table)] == [(first, 1), (second, 2)]


def test_version_1_knows_no_sequence_numbers(tmp_path: Path) -> None:
    """All its files are data files with the sequence number zero."""
    table = IcebergTable(tmp_path / "trips", version=1)
    added = table.append()
    (file,) = live(table)
    assert (file.sequence, file.snapshot, file.content) == (0, added, FileContent.DATA)


def test_a_delete_file_tells_for_which_data_file_it_is(tmp_path: Path) -> None:
    """The data file is in the field for it, or in equal bounds of the paths. A delete file for several data files has
    neither.
    """
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
    seen = sorted((f for f in files_in(look(table)) if f.content is not FileContent.DATA), key=lambda f: f.records)
    assert [file.references for file in seen] == [key_of(data.path), key_of(data.path), None, None]
    assert [file.is_vector for file in seen] == [True, False, False, False]
    assert [file.content for file in seen] == [FileContent.POSITION_DELETES] * 3 + [FileContent.EQUALITY_DELETES]


def test_partitions_of_an_older_spec_are_called_by_its_names(tmp_path: Path) -> None:
    """Files stay in the partition of the spec with which they were written."""
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


def written_as(file: Path, change: Callable[[dict[str, Any]], Any], *, part: str = "partition") -> None:
    """Write a manifest as another engine would: `change` returns the Avro type of a part of its entries, and may change
    the records.
    """
    reader = fastavro.reader(io.BytesIO(file.read_bytes()))
    records: list[Any] = list(reader)
    schema: Any = reader.writer_schema
    [entry] = [one for one in schema["fields"] if one["name"] == "data_file"]
    [field] = [one for one in entry["type"]["fields"] if one["name"] == part]
    for record in records:
        field["type"] = change(record["data_file"])
    content = io.BytesIO()
    fastavro.writer(content, schema, records)
    file.write_bytes(content.getvalue())


def test_an_engine_may_write_no_record_for_the_partition_of_a_table_without_partitions(tmp_path: Path) -> None:
    """BigQuery writes null (a table of its export is among the test data of duckdb-iceberg). Every service was blocked,
    with the advice to restore the manifest.
    """
    table = IcebergTable(tmp_path / "trips", partitioned=False)
    table.append()

    def as_bigquery(file: dict[str, Any]) -> Any:
        file["partition"] = None
        return ["null", {"type": "record", "name": "partition", "fields": []}]

    written_as(next(table.metadata.glob("*-m0.avro")), as_bigquery)
    assert [file.partition for file in live(table)] == [""]


def test_an_entry_that_does_not_say_its_content_is_a_data_file(tmp_path: Path) -> None:
    """Version 1 has no other files, so a manifest from then may have null (`BaseFile` of Iceberg takes it for data)."""
    table = IcebergTable(tmp_path / "trips")
    table.append()

    def without_content(file: dict[str, Any]) -> Any:
        file["content"] = None
        return ["null", "int"]

    written_as(next(table.metadata.glob("*-m0.avro")), without_content, part="content")
    assert [(file.content.name, file.references) for file in live(table)] == [("DATA", None)]


@pytest.mark.parametrize(
    ("source", "transform", "logical", "value", "name"),
    [
        ("date", "identity", "date", 20_000, "2024-10-04"),
        ("timestamptz", "identity", "timestamp-micros", 0, "1970-01-01T00%3A00%3A00%2B00%3A00"),
        ("timestamp", "identity", "local-timestamp-micros", 0, "1970-01-01T00%3A00%3A00%2B00%3A00"),
        ("date", "day", "date", 20_000, "2024-10-04"),
        ("int", "identity", None, 7, "7"),
    ],
)
def test_a_partition_has_one_name_whichever_engine_wrote_it(
    tmp_path: Path, source: str, transform: str, logical: str | None, value: int, name: str
) -> None:
    """Engines spell a name that Avro does not allow in different ways, and some leave out the meaning of a number. With
    two names for a partition, a delete by equality would not seem to apply to its files, and would be removed.
    """
    table = IcebergTable(tmp_path / "trips")
    table.specs[0]["fields"][0] |= {"name": "the day", "transform": transform}

    def spelled(as_name: str, meaning: str | None) -> Callable[[dict[str, Any]], Any]:
        def change(file: dict[str, Any]) -> Any:
            file["partition"] = {as_name: value}
            kind: Any = "long" if meaning is None else {"type": "long", "logicalType": meaning}
            return {
                "type": "record",
                "name": "r102",
                "fields": [{"name": as_name, "type": ["null", kind], "field-id": 1000}],
            }

        return change

    for file, change in ((table.file(), spelled("the_x20day", logical)), (table.file(), spelled("the_day", None))):
        table.specs[0]["fields"][0]["name"] = "p"
        table.append(file)
        newest = max(table.metadata.glob("*-m0.avro"), key=lambda one: one.stat().st_mtime_ns)
        written_as(newest, change)
    table.specs[0]["fields"][0]["name"] = "the day"
    table.columns(p=source)

    assert [file.partition for file in live(table)] == [f"the+day={name}"] * 2


@pytest.mark.parametrize("transform", ["year", "month", "day", "hour", "identity"])
@pytest.mark.parametrize("p", [2**31 - 1, -(2**31)])
def test_an_event_time_that_no_calendar_knows_stops_no_service(tmp_path: Path, transform: str, p: int) -> None:
    """One row of the year 238,000 blocked all services, with the advice to delete newer rows. It is now shown as a
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
    """This holds for any meaning of the number. The next number has another partition."""
    field = PartitionField(field_id=1000, name="p", transform=transform)
    kinds = {} if logical is None else {"p": {"type": "long", "logicalType": logical}}
    names = {partition_path({"p": number}, [field], kinds) for number in (value, value + 1)}
    assert len(names) == 2
    assert all(name.startswith("p=") and len(name) > 2 for name in names)


@pytest.mark.parametrize("gone", [True, False])
def test_no_advice_is_to_give_up_rows_for_a_manifest(tmp_path: Path, gone: bool) -> None:
    """A snapshot without the manifest has fewer rows. If only our reader cannot read it, the table need not change."""
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


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda path: os.truncate(path, 2**30), "commit.manifest.target-size-bytes to a smaller size"),
        (lambda path: path.write_bytes(_repeating(2**26)), "commit.manifest.target-size-bytes to a smaller size"),
        (lambda path: (path.unlink(), path.mkdir()), "correct that at the store"),
    ],
    ids=["of a gigabyte", "of a gigabyte when inflated", "a folder"],
)
def test_what_cannot_be_read_has_the_remedy_of_its_reason(
    tmp_path: Path, make: Callable[[Path], object], remedy: str
) -> None:
    """The table need not be restored for the size of a file, nor for something else that lies in its place."""
    for of_lists in (False, True):
        table = IcebergTable(tmp_path / f"trips-{of_lists}")
        table.append()
        (file,) = table.metadata.glob("snap-*.avro" if of_lists else "*-m0.avro")
        make(file)
        (fault,) = view_of(table).faults
        assert file.name in fault
        assert remedy in fault
        assert "backup" not in fault


def _repeating(size: int) -> bytes:
    """Return a small Avro file that inflates to so many bytes."""
    content = io.BytesIO()
    fastavro.writer(
        content,
        {"type": "record", "name": "r", "fields": [{"name": "manifest_path", "type": "string"}]},
        [{"manifest_path": "a" * size}],
        codec="deflate",
    )
    return content.getvalue()


def test_a_manifest_that_is_no_avro_file_is_named(tmp_path: Path) -> None:
    """The error also names a half-written manifest, and a missing one."""
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
    """It is a valid file without the fields of a manifest list."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    (manifest,) = table.metadata.glob("*-m0.avro")
    with pytest.raises(CorruptMetadataError, match="not a manifest list"):
        read_manifest_list(manifest.read_bytes(), path=str(manifest))


def test_a_digest_tells_files_from_the_ones_that_are_gone(tmp_path: Path) -> None:
    """It keeps the live files, and the partitions of the removed ones."""
    table = IcebergTable(tmp_path / "trips")
    kept, gone = table.file(1), table.file(2)
    table.append(kept, gone)
    removing = table.commit("delete", remove=[gone])
    metadata = read_table(str(table.metadata_file), STORAGE)
    snapshot = metadata.by_id[removing]
    (manifest,) = manifests_of(snapshot, STORAGE)
    digest = ManifestDigest(files_of([manifest], metadata, STORAGE), spec=0)
    assert [file.key for file in digest.live()] == [key_of(kept.path)]
    assert (len(digest), digest.removed_from, digest.touched_by(removing)) == (1, frozenset({"p=2"}), frozenset())
