"""Hostile Iceberg tables: what their metadata, their manifest lists and their manifests say and weigh."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from lakewarden.planners.model.clock import ManualClock
from tests.support.hostile import hostile_avro
from tests.support.hostile.hostile_table import Looks, Place, hostile
from tests.support.iceberg.iceberg_table import IcebergTable

_MIB = 2**20


def _table(place: Place, *, age: timedelta = timedelta(minutes=30)) -> IcebergTable:
    table = IcebergTable(place.folder, clock=ManualClock(datetime.now(UTC) - age))
    for _ in range(3):
        table.append()
    return table


# -- the metadata file


def _metadata(
    name: str, attacks: str, change: Callable[[dict[str, Any]], None], *, looks: Looks = Looks.FAILING
) -> None:
    def make(place: Place) -> None:
        table = _table(place)
        raw = json.loads(table.metadata_file.read_bytes())
        change(raw)
        table.metadata_file.write_text(json.dumps(raw))

    hostile("iceberg", attacks, looks, name=name)(make)


def _content(
    name: str,
    attacks: str,
    content: Callable[[Place, bytes], bytes],
    *,
    compressed: bool = False,
    looks: Looks = Looks.FAILING,
) -> None:
    def make(place: Place) -> None:
        table = _table(place)
        whole, file = table.metadata_file.read_bytes(), table.metadata_file
        if compressed:
            file.unlink()
            file = file.with_name(file.name.replace(".metadata.json", ".gz.metadata.json"))
        file.write_bytes(content(place, whole))

    hostile("iceberg", attacks, looks, name=name)(make)


def _gzip_bomb(size: int) -> bytes:
    """Return so many spaces as gzip, at once whatever the size: members may follow each other."""
    member = gzip.compress(b" " * _MIB)
    return member * (size // _MIB)


def _one_member_bomb(size: int) -> bytes:
    """Return the same as one member, whose end says another length."""
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    chunk = squeeze.compress(b" " * _MIB) + squeeze.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + chunk * (size // _MIB) + squeeze.flush() + bytes(8)


_content("metadata_bomb", "Gigabytes of spaces as gzip.", lambda p, _: _gzip_bomb(p.scale.inflated), compressed=True)
_content(
    "metadata_bomb_of_one", "Gigabytes as one member.", lambda p, _: _one_member_bomb(p.scale.inflated), compressed=True
)
_content("metadata_deep", "JSON deeper than Python goes.", lambda p, _: b'{"schema":' * p.scale.levels)
_content(
    "metadata_deep_whole",
    "JSON deeper than Python goes, closed as it should be.",
    lambda p, _: b'{"a":' * p.scale.levels + b"1" + b"}" * p.scale.levels,
)
_content(
    "metadata_large",
    "64 MiB of snapshots that are none.",
    lambda p, whole: whole[:-1] + b',"more":[' + b"[]," * (p.scale.metadata // 3) + b"0]}",
    looks=Looks.SHOWN,  # where it is not so large it can be read
)
_content("metadata_of_a_text", "A text where a record should be.", lambda *_: b'"\\ud800"')
_content("metadata_of_nothing", "An empty file.", lambda *_: b"")


def _type_of_types(levels: int) -> Any:
    kind: Any = "long"
    for _ in range(levels):
        kind = {"type": "list", "element": kind, "element-id": 1}
    return kind


def _schema_with(kind: Any) -> Callable[[dict[str, Any]], None]:
    def change(raw: dict[str, Any]) -> None:
        raw["schemas"] = [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "type": kind}]}]

    return change


_metadata("schema_deep", "A column of lists of lists of lists.", _schema_with(_type_of_types(300)), looks=Looks.SHOWN)
_metadata("time_of_400_digits", "A time that no calendar holds.", lambda raw: raw.update({"last-updated-ms": 10**400}))
_metadata("time_before_all", "A time before the year 1.", lambda raw: raw.update({"last-updated-ms": -(10**15)}))
_metadata(
    "version_of_400_digits_iceberg",
    "A format version of 400 digits.",
    lambda raw: raw.update({"format-version": 10**400}),
)
_metadata(
    "version_infinite", "A format version that is infinite.", lambda raw: raw.update({"format-version": float("inf")})
)
_metadata("location_of_another", "A location that is another table's.", lambda raw: raw.update({"location": "/etc"}))
_metadata(
    "properties_of_escapes",
    "Escape sequences, surrogates and bidi in all that is shown.",
    lambda raw: raw.update(
        {
            "table-uuid": "\x1b[31m\ud800\u202e",
            "properties": {"\x1b]0;owned\x07": "\ud800", "write.format.default": "\x1b[2J\n"},
            "refs": {**raw["refs"], "\x1b[31mtag\u202e\ud800\n": {**raw["refs"]["main"], "type": "tag"}},
        }
    ),
    looks=Looks.SHOWN,
)


def _counts(raw: dict[str, Any]) -> None:
    for one in raw["snapshots"]:
        one["summary"] |= {"total-data-files": "9" * 5000, "added-data-files": "-1", "total-files-size": "²"}


_metadata("summary_of_5000_digits", "Counts with more digits than Python reads.", _counts, looks=Looks.SHOWN)


def _in_a_circle(raw: dict[str, Any]) -> None:
    ids = [one["snapshot-id"] for one in raw["snapshots"]]
    for one, parent in zip(raw["snapshots"], (*ids[1:], ids[0]), strict=True):
        one["parent-snapshot-id"] = parent


_metadata("snapshots_in_a_circle", "Snapshots that are each other's parents.", _in_a_circle, looks=Looks.SHOWN)


@hostile("iceberg", "A FIFO as the metadata file.")
def metadata_fifo(place: Place) -> None:
    file = _table(place).metadata_file
    file.unlink()
    os.mkfifo(file)


@hostile("iceberg", "A FIFO as version-hint.text.")
def hint_fifo(place: Place) -> None:
    file = _table(place).metadata / "version-hint.text"
    file.unlink()
    os.mkfifo(file)


@hostile("iceberg", "A version hint that no folder could hold.", Looks.SHOWN)
def hint_of_64_digits(place: Place) -> None:
    (_table(place).metadata / "version-hint.text").write_text("9" * 64)


@hostile("iceberg", "A hint that lags behind by as many versions as there are files: each is asked for.", Looks.SHOWN)
def many_versions(place: Place) -> None:
    table = _table(place)
    content = table.metadata_file.read_bytes()
    for number in range(5, 5 + place.scale.entries // 10):
        (table.metadata / f"v{number}.metadata.json").write_bytes(content)
    (table.metadata / "version-hint.text").write_text("1")


@hostile("iceberg", "A link to zeros without end as the metadata file.")
def metadata_device(place: Place) -> None:
    file = _table(place).metadata_file
    file.unlink()
    file.symlink_to("/dev/zero")


# -- manifest lists and manifests


def _list_of(
    name: str, attacks: str, at: Callable[[Place, IcebergTable, str], str], *, looks: Looks = Looks.FAILING
) -> None:
    """Take in a table whose newest manifest list is said to lie elsewhere."""

    def make(place: Place) -> None:
        table = _table(place)
        raw = json.loads(table.metadata_file.read_bytes())
        for one in raw["snapshots"]:
            one["manifest-list"] = at(place, table, one["manifest-list"])
        table.metadata_file.write_text(json.dumps(raw))

    hostile("iceberg", attacks, looks, name=name)(make)


def _foreign_list(place: Place, _: IcebergTable, there: str) -> str:
    elsewhere = place.foreign / "p0" / Path(there).name
    elsewhere.write_bytes(Path(there).read_bytes())
    return f"file:{elsewhere}"


_list_of(
    "manifest_list_of_another", "A manifest list in another table.", _foreign_list, looks=Looks.SHOWN
)  # it may lie anywhere
_list_of(
    "manifest_list_of_http", "A manifest list at an address of http.", lambda *_: "http://127.0.0.1:9/latest/meta-data"
)
_list_of("manifest_list_of_another_store", "A manifest list in a store of others.", lambda *_: "s3://other/snap.avro")
_list_of("manifest_list_of_a_device", "A manifest list that is /dev/zero.", lambda *_: "/dev/zero")
_list_of("manifest_list_of_passwords", "A manifest list that is /etc/passwd.", lambda *_: "file:///etc/passwd")
_list_of("manifest_list_with_a_nul", "A manifest list with a NUL in its path.", lambda *_: "file:/a\0b")
_list_of("manifest_list_as_a_number", "A manifest list that is not a text.", lambda *_: 17)  # type: ignore[arg-type]
_list_of(
    "manifest_list_is_the_metadata", "A manifest list that is the metadata.", lambda _, t, __: str(t.metadata_file)
)


def _replaced(name: str, attacks: str, content: Callable[[Place], bytes], *, which: str) -> None:
    """Take in a table whose manifest lists (`snap-*`) or manifests (`*-m0*`) have another content."""

    def make(place: Place) -> None:
        table = _table(place)
        for file in table.metadata.glob(which):
            file.write_bytes(content(place))

    hostile("iceberg", attacks, name=name)(make)


for _what, _which in (("manifest_list", "snap-*.avro"), ("manifest", "*-m0.avro")):
    _said = _what.replace("_", " ")
    _replaced(
        f"{_what}_of_itself", f"A {_said} that holds itself.", lambda _: hostile_avro.of_itself(5000), which=_which
    )
    _replaced(
        f"{_what}_of_empty_records",
        f"A {_said} of 2^60 records.",
        lambda _: hostile_avro.of_empty_records(),
        which=_which,
    )
    _replaced(
        f"{_what}_of_zeros", f"A {_said} of zeros.", lambda p: hostile_avro.of_zeros(p.scale.inflated), which=_which
    )
    _replaced(
        f"{_what}_of_doubled_names",
        f"A {_said} of 2^60 fields.",
        lambda _: hostile_avro.of_doubled_names(),
        which=_which,
    )


@hostile("iceberg", "A manifest list whose manifests are the list.")
def manifest_list_names_itself(place: Place) -> None:
    table = _table(place)
    for snapshot in table.snapshots.values():
        for one in snapshot.manifests:
            one.path.write_bytes(Path(snapshot.line["manifest-list"]).read_bytes())


# -- deletion lists


@hostile("iceberg", "Old snapshots whose files are another table's: expiring them would delete those.", Looks.SHOWN)
def expiry_of_another_table(place: Place) -> None:
    canaries = sorted((place.foreign / "p0").glob("keep-*"))
    table = IcebergTable(place.folder, clock=ManualClock(datetime.now(UTC) - timedelta(days=30)))
    foreign = [table.file(0) for _ in canaries]
    foreign = [type(one)(path=f"file:{canary}", p=0) for one, canary in zip(foreign, canaries, strict=True)]
    table.append(*foreign)
    table.commit("delete", remove=foreign)
    table.append()


@hostile("iceberg", "A log of metadata files, and statistics, that are another table's files.", Looks.SHOWN)
def metadata_log_of_another_table(place: Place) -> None:
    table = _table(place, age=timedelta(days=30))
    canaries = [str(path) for path in sorted((place.foreign / "p0").glob("keep-*"))]
    raw = json.loads(table.metadata_file.read_bytes())
    raw["metadata-log"] = [{"metadata-file": path, "timestamp-ms": 1} for path in canaries]
    raw["statistics"] = [
        {"snapshot-id": raw["snapshots"][0]["snapshot-id"], "statistics-path": path} for path in canaries
    ]
    table.metadata_file.write_text(json.dumps(raw))
