"""`hoodie.properties` is read as Java reads it."""

from __future__ import annotations

import shutil
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi.metadata.properties import parse_properties
from lakewarden.planners.model.view import Blocker
from tests.support.hudi.hudi_look import made
from tests.support.hudi.hudi_table import HudiTable
from tests.unit.planners.formats.hudi.test_observing import served, view_of

JAVA_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "=": "\\=", ":": "\\:", "#": "\\#"}


def as_java_stores(text: str, *, key: bool) -> str:
    """Escape as `java.util.Properties.store` does."""
    out = []
    for position, char in enumerate(text):
        if char == " " and (key or position == 0):
            out.append("\\ ")
        elif char in JAVA_ESCAPES or char == "!":
            out.append(JAVA_ESCAPES.get(char, "\\!"))
        elif ord(char) > 0x7E or ord(char) < 0x20:
            out.append(f"\\u{ord(char):04X}")
        else:
            out.append(char)
    return "".join(out)


TEXT = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=12)


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=5))
def test_what_java_stores_is_read_back(values: dict[str, str]) -> None:
    """Keys and values round-trip through Java's escapes."""
    lines = [f"{as_java_stores(k, key=True)}={as_java_stores(v, key=False)}\n" for k, v in values.items()]
    assert parse_properties(("#a comment\n" + "".join(lines)).encode("latin-1")) == values


@pytest.mark.parametrize(
    ("content", "values"),
    [
        ("a=b", {"a": "b"}),
        ("a : b", {"a": "b"}),
        ("a b c", {"a": "b c"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("  a = b ", {"a": "b "}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("!no\n#no\n\na=1\na=2", {"a": "2"}),
        ("url=s3\\://b/x", {"url": "s3://b/x"}),
        ("a=\\u00e9\\", {"a": "é"}),
        ("a=\\ud83d\\ude00", {"a": "\U0001f600"}),
        ("a=\\ud800", {"a": "\ufffd"}),
        ("a=\\ude00\\ud83d.", {"a": "\ufffd\ufffd."}),
    ],
)
def test_javas_notation_is_understood(content: str, values: dict[str, str]) -> None:
    """Separators, continuation lines, comments and escapes mean what they mean in Java. Half a pair of surrogates,
    which cannot be written anywhere, becomes a mark.
    """
    assert parse_properties(content.encode("latin-1")) == values


@given(st.binary(max_size=60))
def test_any_bytes_can_be_read(content: bytes) -> None:
    """A damaged file raises nothing here. A missing key is noticed by name."""
    parse_properties(content)


@pytest.mark.parametrize("line", ["\\\n", "a\\\n", "\\\\\\\n", "a=b\n", "\n", "#\n", "\\u00e9\\\n"])
def test_a_megabyte_of_lines_takes_time_by_its_length(line: str) -> None:
    """Continued lines were joined one by one: two million of them took over a minute."""
    content = (line * (2**20 // len(line))).encode()
    begun = time.process_time()
    parse_properties(content)
    assert time.process_time() - begun < 60


# An update of `hoodie.properties` that broke off: Hudi goes by what is left of it, so no service may run.


FIXTURES = Path(__file__).parents[5] / "fixtures" / "hudi"
ORDERED = {
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.base.file.format": "PARQUET",
}
"""What tells how the rows of a table of version 9 are merged, in an order in which Hudi writes it."""

BROKE_OFF = "hoodie.properties is incomplete: it "
COLUMNS = '{"type":"record","name":"r","fields":[{"name":"id"},{"name":"ts"},{"name":"part"},{"name":"Region"}]}'
NO_ORDER = {"hoodie.table.ordering.fields": "", "hoodie.table.precombine.field": ""}
FLINKS = "org.apache.hudi.common.model.EventTimeAvroPayload"
DELETE_FIELD = "hoodie.record.merge.property.hoodie.payload.delete.field"


def blocked(table: HudiTable) -> list[Blocker]:
    """Return what blocks the table because of its properties."""
    return [one for one in view_of(table).blockers if one.reason.startswith("hoodie.properties")]


def without(table: HudiTable, key: str) -> None:
    """Take a line out of the properties."""
    file = table.home / "hoodie.properties"
    file.write_text("".join(line for line in file.read_text().splitlines(True) if not line.startswith(key)))


def changed(base: Mapping[str, object], **changes: str | None) -> dict[str, object]:
    """Return properties with other lines. A name ends a key, with dots as underscores. None takes a line out."""
    found = dict(base)
    for ending, value in changes.items():
        [key] = [one for one in found if one.endswith(ending.replace("_", "."))]
        found[key] = value
    return {key: value for key, value in found.items() if value is not None}


def ordered(tmp_path: Path, **changes: str | None) -> HudiTable:
    """Return a table with these changes of its properties. None takes a line out."""
    found = changed(ORDERED, **changes)
    table = served(made(tmp_path, properties={**ORDERED, **found}))
    for key in ORDERED.keys() - found.keys():
        without(table, key)
    return table


def test_a_key_that_the_backup_has_and_the_file_lacks_blocks_every_service(tmp_path: Path) -> None:
    """The file names the table and its type, and a rest of it would decide how rows are merged."""
    table = ordered(tmp_path)
    file = table.home / "hoodie.properties"
    shutil.copy(file, table.home / "hoodie.properties.backup")
    assert not blocked(table)
    without(table, "hoodie.table.partition.fields")
    (found,) = blocked(table)
    assert not found.services, "it is about every service"
    assert "lacks hoodie.table.partition.fields, which hoodie.properties.backup has" in found.reason
    assert "copy the backup over hoodie.properties" in str(found.remedy)
    shutil.copy(table.home / "hoodie.properties.backup", file)
    assert not blocked(table)


@pytest.mark.parametrize("key", ["hoodie.record.merge.mode", "hoodie.timeline.layout.version"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_merge_on_read_table_has_a_merge_mode_and_a_layout_from_version_8_on(
    tmp_path: Path, version: int, key: str
) -> None:
    """Without the mode a compaction ends with a NullPointerException, without the layout Hudi finds no table. Older
    tables never had a mode.
    """
    table = made(tmp_path, version=version)
    without(table, key)
    assert [one.reason.split(",")[0] for one in blocked(table)] == ([] if version == 6 else [f"{BROKE_OFF}lacks {key}"])


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"ordering_fields": None}, "lacks hoodie.table.ordering.fields"),
        ({"ordering_fields": ""}, "lacks hoodie.table.ordering.fields"),
        ({"merge_mode": "EVENT_T"}, "says hoodie.record.merge.mode=EVENT_T"),
        ({"merge_mode": ""}, "says hoodie.record.merge.mode="),
        ({"file_format": "PARQ"}, "says hoodie.table.base.file.format=PARQ"),
        ({"timezone": "U"}, "says hoodie.table.timeline.timezone=U"),
        ({"meta_fields": "tru"}, "says hoodie.populate.meta.fields=tru"),
        ({"generator_type": "SIMP"}, "says hoodie.table.keygenerator.type=SIMP"),
    ],
)
def test_what_a_table_must_have_and_has_not_blocks_every_service(
    tmp_path: Path, changes: Mapping[str, str | None], names: str
) -> None:
    """Without ordering fields a row that came late won in a compaction that succeeded."""
    table = ordered(tmp_path, **changes)
    (found,) = blocked(table)
    assert not found.services
    assert found.reason.startswith((f"{BROKE_OFF}{names}, which", f"{BROKE_OFF}{names} (not whole)"))
    assert "remove the table's policies" not in [one.remedy for one in view_of(table).blockers]


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ({"hoodie.timeline.layout.version": ""}, "says hoodie.timeline.layout.version="),
        ({"hoodie.table.version": ""}, "says hoodie.table.version="),
        ({DELETE_FIELD: "op"}, "lacks hoodie.record.merge.property.hoodie.payload.delete.marker"),
        ({"hoodie.payload.delete.marker": "D"}, "lacks hoodie.payload.delete.field"),
        ({"hoodie.table.create.schema": COLUMNS, "hoodie.table.ordering.fields": "t"}, "says hoodie.table.ordering"),
        ({"hoodie.table.create.schema": COLUMNS, "hoodie.table.recordkey.fields": "id,"}, "says hoodie.table.record"),
        ({"hoodie.table.create.schema": COLUMNS, "hoodie.table.partition.fields": "par"}, "says hoodie.table.part"),
        ({"hoodie.table.create.schema": COLUMNS[:40]}, "says hoodie.table.create.schema="),
    ],
)
def test_lines_that_belong_together_are_judged_together(tmp_path: Path, more: Mapping[str, object], names: str) -> None:
    """A half of them fails a compaction for ever, with its plan left."""
    (found,) = blocked(made(tmp_path, properties={**ORDERED, **more}))
    assert found.reason.startswith(f"{BROKE_OFF}{names}")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.record.merge.mode", "EVENT_T"),
        ("hoodie.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ("hoodie.table.ordering.fields", "t"),
        ("hoodie.table.recordkey.fields", ""),
        ("hoodie.table.partition.fields", "pa"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.table.type", "COPY_ON_WRITE"),
    ],
)
def test_another_value_than_the_backup_has_blocks_every_service(tmp_path: Path, key: str, value: str) -> None:
    """Only a person changes these, and a person can say which of the two files is right."""
    table = ordered(tmp_path)
    file = table.home / "hoodie.properties"
    shutil.copy(file, table.home / "hoodie.properties.backup")
    without(table, key)
    with file.open("a") as lines:
        lines.write(f"{key}={value}")
    (found,) = blocked(table)
    assert f"{key}={value} (the backup: " in found.reason
    assert "copy the backup over hoodie.properties" in str(found.remedy)


@pytest.mark.parametrize("left", [None, "", "#half", "hoodie.table.name=trips\nhoodie.table.version=9\n"])
def test_a_file_that_only_its_backup_replaces_blocks_every_service(tmp_path: Path, left: str | None) -> None:
    """Hudi finds no table, or a copy-on-write table. Its own updates replace the file in a moment."""
    table = ordered(tmp_path)
    file = table.home / "hoodie.properties"
    file.rename(table.home / "hoodie.properties.backup")
    if left is not None:
        file.write_text(left)
    (found,) = blocked(table)
    assert "which hoodie.properties.backup has" in found.reason
    assert "copy the backup over hoodie.properties" in str(found.remedy)


@pytest.mark.parametrize("fields", [None, ""])
@pytest.mark.parametrize("folder", ["part=1", "2026/03/01"])
def test_a_table_with_partitions_names_their_fields(tmp_path: Path, fields: str | None, folder: str) -> None:
    """Without them every reader sees an empty table, and a compaction of it succeeded."""
    table = ordered(tmp_path)
    without(table, "hoodie.table.partition.fields")
    if fields is not None:
        with (table.home / "hoodie.properties").open("a") as lines:
            lines.write("hoodie.table.partition.fields=")
    assert not blocked(table)
    of_another = table.folder / "other" / "p"
    of_another.mkdir(parents=True)
    (table.folder / "other" / ".hoodie").mkdir()
    (table.folder / "other" / ".hoodie" / "hoodie.properties").touch()
    (of_another / ".hoodie_partition_metadata").touch()
    assert not blocked(table), "the folder of another table is not a partition"
    (table.folder / folder).mkdir(parents=True)
    (table.folder / folder / ".hoodie_partition_metadata").touch()
    assert blocked(table)[0].reason.startswith(f"{BROKE_OFF}lacks hoodie.table.partition.fields")
    with (table.home / "hoodie.properties").open("a") as lines:
        lines.write("\nhoodie.table.keygenerator.type=NON_PARTITION")
    assert not blocked(table)


@pytest.mark.parametrize(
    ("version", "kind", "properties"),
    [
        (5, "MERGE_ON_READ", {}),
        (6, "MERGE_ON_READ", NO_ORDER),
        (8, "MERGE_ON_READ", {}),
        (8, "MERGE_ON_READ", {**NO_ORDER, "hoodie.compaction.payload.class": FLINKS}),
        (9, "MERGE_ON_READ", {**NO_ORDER, "hoodie.table.legacy.payload.class": FLINKS}),
        (9, "MERGE_ON_READ", {**NO_ORDER, "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}),
        (9, "MERGE_ON_READ", {**NO_ORDER, "hoodie.record.merge.mode": "CUSTOM"}),
        (9, "COPY_ON_WRITE", NO_ORDER),
        (9, "MERGE_ON_READ", {**ORDERED, "hoodie.table.base.file.format": "HFILE"}),
        (9, "MERGE_ON_READ", {**ORDERED, "hoodie.table.keygenerator.type": "SPARK_SQL"}),
        (9, "MERGE_ON_READ", {**ORDERED, "hoodie.table.create.schema": COLUMNS}),
        (9, "MERGE_ON_READ", {**ORDERED, "hoodie.table.create.schema": COLUMNS, "hoodie.table.recordkey.fields": "k"}),
        (9, "MERGE_ON_READ", {**ORDERED, "hoodie.table.partition.fields": "region:SIMPLE"}),
        (9, "MERGE_ON_READ", {**ORDERED, DELETE_FIELD: "op", DELETE_FIELD.replace("field", "marker"): "D"}),
    ],
)
def test_tables_as_hudi_makes_them_are_not_blocked(
    tmp_path: Path, version: int, kind: str, properties: Mapping[str, object]
) -> None:
    """Flink makes tables without ordering fields, and keeps EVENT_TIME_ORDERING. A column may be younger than the
    schema.
    """
    table = made(tmp_path, version=version, kind=kind, properties=properties)
    assert not blocked(table)
    shutil.copy(table.home / "hoodie.properties", table.home / "hoodie.properties.backup")
    assert not blocked(table)


@pytest.mark.parametrize("was", ["mor_v6", "mor_v8", "mor_v9", "cow_v6", "cow_v8", "cow_v9"])
@pytest.mark.parametrize("name", ["mor_v6", "mor_v8", "mor_v9", "cow_v6", "cow_v8", "cow_v9"])
def test_a_backup_that_an_upgrade_or_a_downgrade_left_blocks_nothing(tmp_path: Path, was: str, name: str) -> None:
    """Hudi deletes it last. The file is whole, and keys and values of another version differ."""
    if was[:3] != name[:3]:
        return
    table = made(tmp_path, version=int(name[-1]))
    for file, content in (("hoodie.properties", of_fixture(name)), ("hoodie.properties.backup", of_fixture(was))):
        (table.home / file).write_text(content)
    assert not blocked(table)
    with (table.home / "hoodie.properties").open("a") as lines:
        lines.write("hoodie.table.metadata.partitions=files,column_stats\nhoodie.table.checksum=1\n")
    assert not blocked(table)


def of_fixture(name: str) -> str:
    """Return the properties of a table that Hudi has written."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as files:
        return files.read(".hoodie/hoodie.properties").decode()


@pytest.mark.parametrize("name", ["mor_v6", "mor_v8", "mor_v9", "cow_v6", "cow_v8", "cow_v9"])
def test_each_cut_of_a_file_beside_its_backup_is_found(tmp_path: Path, name: str) -> None:
    """Whatever is left of it. A backup that broke off, beside the whole file, is no sign of anything."""
    table = made(tmp_path, version=int(name[-1]))
    file, backup, text = table.home / "hoodie.properties", table.home / "hoodie.properties.backup", of_fixture(name)
    backup.write_text(text)
    for end in range(0, len(text) - 1, 7):
        file.write_text(text[:end])
        assert len(blocked(table)) == 1, text[:end][-60:]
    file.write_text(text)
    for end in range(0, len(text), 7):
        backup.write_text(text[:end])
        assert not blocked(table), text[:end][-60:]
