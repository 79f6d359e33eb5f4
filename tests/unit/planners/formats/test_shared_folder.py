"""Two tables of different formats in one folder: only the one that the other is made from is served."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from lakewarden.planners.formats.hudi.format import HudiFormat
from lakewarden.planners.formats.iceberg.format import IcebergFormat
from lakewarden.planners.formats.layouts import LAYOUTS, found_in
from lakewarden.planners.formats.paimon.format import PaimonFormat
from lakewarden.planners.formats.shared_folder import SharedFolders, Sharing, require_own_folder, sharing
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import RECOGNISED
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.values import NOW

FIXTURES = Path(__file__).parents[3] / "fixtures"
ONE = f"{1:020}.json"


def synced(source: str) -> dict[str, str]:
    """Return the property that Apache XTable sets on the tables that it makes."""
    said = {"lastInstantSynced": "2026-11-20T08:00:00Z", "instantsToConsiderForNextSync": [], "version": 0}
    return {"XTABLE_METADATA": json.dumps({**said, **({"sourceTableFormat": source} if source else {})})}


def put(file: Path, content: bytes = b"") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def hudi(folder: Path, extra: Mapping[str, str] | None = None) -> None:
    """Make a table of version 6 with one commit."""
    put(folder / ".hoodie/hoodie.properties", b"hoodie.table.name=t\n")
    put(folder / ".hoodie/20261120080000000.commit", json.dumps({"extraMetadata": dict(extra or {})}).encode())


def iceberg(folder: Path, properties: Mapping[str, str] | None = None, *, zipped: bool = False) -> None:
    text = json.dumps({"properties": dict(properties or {})}).encode()
    name = "00001-x.gz.metadata.json" if zipped else "v1.metadata.json"
    put(folder / "metadata" / name, gzip.compress(text) if zipped else text)


def paimon(folder: Path, options: Mapping[str, str] | None = None) -> None:
    put(folder / "schema/schema-0", json.dumps({"id": 0, "options": dict(options or {})}).encode())


def delta(folder: Path, configuration: Mapping[str, str] | None = None) -> None:
    lines = [{"commitInfo": {}}, {"metaData": {"configuration": dict(configuration or {})}}, {"add": {"path": "x"}}]
    put(folder / "_delta_log" / ONE, "\n".join(map(json.dumps, lines)).encode())


MAKE: Mapping[str, Callable[..., None]] = {"hudi": hudi, "iceberg": iceberg, "paimon": paimon, "delta": delta}


def shared(own: str, folder: Path, properties: Mapping[str, str] | None = None) -> Sharing:
    return sharing(own, [str(folder)], LocalStorage(), properties=properties)


def reason(own: str, folder: Path, properties: Mapping[str, str] | None = None) -> str:
    blocker = shared(own, folder, properties).blocker
    assert blocker is not None
    assert not blocker.services, "every service is blocked"
    return f"{blocker.reason}: {blocker.remedy}"


@pytest.mark.parametrize("own", RECOGNISED)
@pytest.mark.parametrize("other", LAYOUTS)
def test_of_two_tables_in_a_folder_neither_is_served_if_no_tool_says_which_is_the_copy(
    tmp_path: Path, own: str, other: str
) -> None:
    """A file may belong to either of them."""
    MAKE[own](tmp_path)
    if other == own:
        assert shared(own, tmp_path) == Sharing()
        return
    MAKE[other](tmp_path)
    said = reason(own, tmp_path)
    assert f"{tmp_path} is also the folder of a" in said
    assert f"{other.capitalize()} table ({tmp_path}/{LAYOUTS[other].folder}/" in said
    assert "a folder of its own" in said


@pytest.mark.parametrize(
    ("own", "source", "tool"),
    [
        ("iceberg", "HUDI", "Apache XTable"),
        ("iceberg", "DELTA", "Apache XTable"),
        ("hudi", "ICEBERG", "Apache XTable"),
        ("hudi", "DELTA", "Apache XTable"),
    ],
)
def test_a_copy_is_never_served_and_the_reason_names_its_source_and_the_tool(
    tmp_path: Path, own: str, source: str, tool: str
) -> None:
    """Its files belong to the source. A service would delete them, or the next copy undo its work."""
    MAKE[own](tmp_path, synced(source))
    MAKE[source.lower()](tmp_path)
    said = reason(own, tmp_path)
    assert f"this {own.capitalize()} table is a copy of the metadata of" in said
    assert f"{source.capitalize()} table, made by {tool}" in said
    assert f"register {tmp_path} as" in said


@pytest.mark.parametrize("zipped", [False, True])
def test_the_source_of_a_copy_is_served_with_a_warning(tmp_path: Path, *, zipped: bool) -> None:
    """Its services know its files. Readers of the copy are the concern of the warning."""
    hudi(tmp_path)
    iceberg(tmp_path, synced("HUDI"), zipped=zipped)
    found = shared("hudi", tmp_path)
    assert found.blocker is None
    [warning] = found.warnings
    assert warning.startswith("Apache XTable copies its metadata to Iceberg")


def test_a_source_of_two_copies_is_served(tmp_path: Path) -> None:
    """XTable makes several copies at a time."""
    iceberg(tmp_path)
    hudi(tmp_path, synced("ICEBERG"))
    delta(tmp_path, synced("ICEBERG"))
    found = shared("iceberg", tmp_path, {})
    assert found.blocker is None
    assert len(found.warnings) == 2


def test_a_copy_of_a_third_table_makes_no_owner(tmp_path: Path) -> None:
    """The Iceberg table is Delta's, so the Hudi table beside them is a second source."""
    hudi(tmp_path)
    delta(tmp_path)
    iceberg(tmp_path, synced("DELTA"))
    assert "which of the two tables a file belongs to cannot be told" in reason("hudi", tmp_path)


@pytest.mark.parametrize(
    ("properties", "source"),
    [
        (synced("HUDI"), "a Hudi table, made by Apache XTable"),
        (synced(""), "a table of another format, made by Apache XTable"),
        ({"ONETABLE_LAST_INSTANT_SYNCED": "2024-01-01T00:00:00Z"}, "a table of another format, made by Apache XTable"),
        ({"delta-version": "7", "delta-timestamp": "1"}, "a Delta table, made by UniForm"),
    ],
)
def test_the_properties_alone_tell_a_copy(tmp_path: Path, properties: dict[str, str], source: str) -> None:
    """Its source may lie elsewhere. A first release of XTable, and OneTable before it, do not name the format."""
    assert f"is a copy of the metadata of {source}" in reason("iceberg", tmp_path, properties)


@pytest.mark.parametrize(
    "options", [{"metadata.iceberg.storage": "table-location"}, {"metadata.iceberg-compatible": "true"}]
)
def test_paimons_own_copy_is_known_by_the_options_of_the_paimon_table(tmp_path: Path, options: dict[str, str]) -> None:
    """The copy itself has no property that says so."""
    paimon(tmp_path, options)
    iceberg(tmp_path)
    assert "a copy of the metadata of a Paimon table, made by the writers" in reason("iceberg", tmp_path, {})
    found = shared("paimon", tmp_path)
    assert found.blocker is None
    assert len(found.warnings) == 1


@pytest.mark.parametrize(
    "options", [{"metadata.iceberg.storage": "disabled"}, {"metadata.iceberg-compatible": "false"}]
)
def test_paimon_that_makes_no_copies_explains_no_iceberg_table(tmp_path: Path, options: dict[str, str]) -> None:
    """Then the other table is another one."""
    paimon(tmp_path, options)
    iceberg(tmp_path)
    assert "is also the folder of" in reason("paimon", tmp_path)
    assert "is also the folder of" in reason("iceberg", tmp_path, {})


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"\x1f\x8b\x08cut", b'{"properties": []}', b'{"properties": {"delta-version": 1}}']
)
def test_metadata_that_cannot_be_read_makes_no_copy(tmp_path: Path, text: bytes) -> None:
    """What is not known to be a copy may be a table of its own."""
    hudi(tmp_path)
    put(tmp_path / "metadata/v1.metadata.json", text)
    assert "is also the folder of an Iceberg table" in reason("hudi", tmp_path)


def test_the_newest_version_tells(tmp_path: Path) -> None:
    """A copy that got writers of its own loses the property."""
    hudi(tmp_path)
    iceberg(tmp_path, synced("HUDI"))
    newer = put(tmp_path / "metadata/v2.metadata.json", b"{}")
    os.utime(tmp_path / "metadata/v1.metadata.json", (1, 1))
    os.utime(newer, (2, 2))
    assert "is also the folder of" in reason("hudi", tmp_path)


def test_ordinary_folders_with_such_names_are_no_tables(tmp_path: Path) -> None:
    """A partition, a file, and an empty folder may be named like them."""
    put(tmp_path / "metadata/part-0.parquet")
    put(tmp_path / "schema")
    (tmp_path / "_delta_log").mkdir()
    assert found_in(str(tmp_path), LocalStorage()) == ()


def test_a_run_is_refused_before_it_begins(tmp_path: Path) -> None:
    """The same question as the daemon's, without what was remembered."""
    iceberg(tmp_path)
    require_own_folder("iceberg", [str(tmp_path)], LocalStorage(), properties={})
    delta(tmp_path)
    with pytest.raises(PermanentError, match=r"is also the folder of a Delta table .*; let each table have"):
        require_own_folder("iceberg", [str(tmp_path)], LocalStorage(), properties={})


def test_what_was_found_is_remembered_for_ten_minutes(tmp_path: Path) -> None:
    """A listing for each format at each observation would cost more than the observation."""
    kept = SharedFolders("hudi")
    hudi(tmp_path)

    def blocked(at: timedelta) -> bool:
        return kept.of([str(tmp_path)], LocalStorage(), now=NOW + at).blocker is not None

    assert not blocked(timedelta())
    delta(tmp_path)
    assert [blocked(timedelta(minutes=minutes)) for minutes in (9, 10)] == [False, True]
    shutil.rmtree(tmp_path / "_delta_log")
    assert [blocked(timedelta(minutes=minutes)) for minutes in (19, 20)] == [True, False]


def blocked(format_: TableFormat, folder: Path) -> str:
    table = Table(id=TableId("t"), format=format_.name, location=str(folder), policies={})
    view = format_.observe(table, LocalStorage(), None, now=NOW).view
    return "".join(one.reason for one in view.blockers[:1])


@pytest.mark.parametrize(
    ("make", "fixture"),
    [(HudiFormat, "hudi/mor_v9"), (HudiFormat, "hudi/cow_v6"), (PaimonFormat, "paimon/spark_keyed")],
)
def test_every_format_shows_it(tmp_path: Path, make: Callable[[], TableFormat], fixture: str) -> None:
    """It stands before all else that blocks the table."""
    with zipfile.ZipFile(FIXTURES / f"{fixture}.zip") as archive:
        archive.extractall(tmp_path)
    marks = (file for file in tmp_path.rglob("*") if file.name in ("hoodie.properties", "schema-0"))
    folder = min(marks, key=lambda file: len(file.parts)).parent.parent
    assert "is also the folder of" not in blocked(make(), folder)
    delta(folder)
    assert "is also the folder of a Delta table" in blocked(make(), folder)


def test_an_iceberg_table_shows_it_for_each_of_its_folders(tmp_path: Path) -> None:
    """A property may send its files to another folder that is its own by the options."""
    table = IcebergTable(tmp_path / "trips")
    table.append()
    assert blocked(IcebergFormat(), table.folder) == ""
    hudi(table.folder)
    assert "is also the folder of a Hudi table" in blocked(IcebergFormat(), table.folder)
    shutil.rmtree(table.folder / ".hoodie")
    hudi(table.folder / "data")
    table.properties["write.data.path"] = str(table.folder / "data")
    table.append()
    assert f"{table.folder}/data is also the folder of a Hudi table" in blocked(IcebergFormat(), table.folder)
