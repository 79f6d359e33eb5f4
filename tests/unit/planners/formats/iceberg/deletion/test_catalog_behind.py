"""Another catalog is ahead of the table's catalog, as after a migration. A clean would expire snapshots that the other
catalog still has.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer
from lakewarden.planners.formats.iceberg.deletion.catalog_behind import require_newest
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.observing import observed
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import FileEntry, Observation
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_look import look, registered
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.values import NOW

DAY, HOUR = timedelta(days=1), timedelta(hours=1)


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Make a table of two commits, five days old."""
    made = IcebergTable(tmp_path / "trips")
    for _ in range(2):
        made.append()
    for path in made.metadata.iterdir():
        aged(path, 5 * DAY)
    return made


def aged(path: Path, ago: timedelta) -> Path:
    written = (NOW - ago).timestamp()
    os.utime(path, (written, written))
    return path


def unknown(table: IcebergTable, *, ago: timedelta, **said: Any) -> None:
    """Put a metadata file into the folder that the catalog does not know."""
    raw = json.loads(table.metadata_file.read_text()) | {key.replace("_", "-"): value for key, value in said.items()}
    path = table.metadata / "00009-unknown.metadata.json"
    path.write_text(json.dumps(raw))
    aged(path, ago)


def ask(table: IcebergTable) -> None:
    require_newest(lambda: read_table(str(table.metadata_file), LocalStorage()), LocalStorage(), now=NOW)


def test_a_newer_version_of_the_table_is_anothers_catalogs(table: IcebergTable) -> None:
    """The snapshots that would expire here may be needed there. The reason names the file that shows it."""
    unknown(table, ago=2 * HOUR, last_sequence_number=99)
    with pytest.raises(PermanentError, match=r"00009-unknown\.metadata\.json is a newer version"):
        ask(table)


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(minutes=30), {"last_sequence_number": 99}),  # its writer is committing it, or was killed
        (6 * DAY, {"last_sequence_number": 99}),  # a lost attempt from before the newest version
        (2 * HOUR, {}),
        (2 * HOUR, {"last_sequence_number": 99, "table_uuid": "another"}),  # the files are its own
    ],
    ids=["young", "an attempt of before", "the same version", "another table"],
)
def test_what_is_no_newer_version_holds_nothing_back(table: IcebergTable, ago: timedelta, said: dict[str, Any]) -> None:
    """A clean deletes only what this table's own snapshots name."""
    unknown(table, ago=ago, **said)
    ask(table)


@pytest.mark.parametrize("ago", [timedelta(0), 2 * HOUR, 9 * DAY])
@pytest.mark.parametrize("style", ["v{}.metadata.json", "{:05}-3f6c1a52-0b7e-4f51-9d3c-5e8a7b6c4d21.metadata.json"])
def test_a_pointer_that_is_behind_is_seen_by_the_numbers_of_the_versions(
    table: IcebergTable, ago: timedelta, style: str
) -> None:
    """Versions between are deleted, the newest may have the same content, and a copy has any time of its last write."""
    current = table.metadata / style.format(3)
    table.metadata_file.rename(current)
    metadata = read_table(str(current), LocalStorage())
    newest = table.metadata / style.format(11)
    newest.write_bytes(current.read_bytes())
    aged(newest, ago)
    with pytest.raises(PermanentError, match=f"{newest.name} is a newer version of this table"):
        require_newest(lambda: metadata, LocalStorage(), now=NOW)
    newest.rename(table.metadata / style.format(2))
    require_newest(lambda: metadata, LocalStorage(), now=NOW)


def test_a_pointer_that_is_behind_blocks_a_table_with_a_hint_before_a_run(table: IcebergTable) -> None:
    """Every service is blocked until the newer version is gone, although the hint does not change then."""
    current, newest = (table.metadata / f"v{number}.metadata.json" for number in (3, 11))
    newest.write_bytes(table.metadata_file.read_bytes())
    table.metadata_file.rename(current)
    seen = look(table)
    [blocker] = seen.view.blockers
    assert blocker.services == frozenset()
    newest.unlink()
    assert look(table, previous=seen).view.blockers == ()


def versions(table: IcebergTable) -> tuple[Path, Path]:
    """Let a catalog name the metadata files. Return the last but one, and the last."""
    found = sorted(table.metadata.glob("v*.metadata.json"))
    named = [path.rename(path.with_name(f"{at:05}-ours.metadata.json")) for at, path in enumerate(found)]
    for path in named[1:]:
        log = [{"metadata-file": str(before), "timestamp-ms": 1} for before in named[: named.index(path)]]
        path.write_text(json.dumps(json.loads(path.read_text()) | {"metadata-log": log}))
        aged(path, 3 * HOUR)
    return named[-2], named[-1]


def seen_at(table: IcebergTable, file: Path, previous: Observation | None, now: datetime = NOW) -> Observation:
    asked = registered(table.folder, Service.CLEAN)
    return observed(
        asked, LocalStorage(), previous, pointer=Pointer(token="", metadata_file=str(file)), token="", now=now
    )


@pytest.mark.parametrize("broken", ["", "is not a metadata file", "is not there"])
@pytest.mark.parametrize("remembers", [True, False], ids=["seen before", "after a restart"])
def test_a_pointer_that_is_set_back_is_one_block_with_both_ways_out(
    table: IcebergTable, broken: str, *, remembers: bool
) -> None:
    """A version that cannot be read was left on purpose, and to go forth would bring it back. Then moving it away is
    told first. A version that the catalog has named is no attempt, however young it is.
    """
    before, newest = versions(table)
    aged(newest, HOUR / 6)
    seen = seen_at(table, newest, None) if remembers else None
    if broken == "is not a metadata file":
        newest.write_text("{}")
    if broken == "is not there":
        for path in table.metadata.glob(f"snap-{table.current}-*.avro"):
            path.unlink()
    aged(newest, HOUR / 6 if remembers else 2 * HOUR)
    back = seen_at(table, before, seen)
    [blocker] = back.view.blockers
    assert blocker.services == frozenset()
    assert f"{newest.name} is a newer version of this table than {before.name}" in blocker.reason
    assert broken in blocker.reason
    ways = [blocker.remedy.index(f"if {one} is the right one") for one in (newest, before.name)]
    assert (ways == sorted(ways)) is (not broken)
    assert f"move {newest.name} and each other version after {before.name} out of" in blocker.remedy
    assert len(seen_at(table, before, back).view.blockers) == 1

    if not broken:
        assert seen_at(table, newest, back).view.blockers == ()
    newest.rename(table.folder / "aside.json")
    assert seen_at(table, before, back).view.blockers == ()


def test_a_writer_that_goes_on_is_no_pointer_that_was_set_back(table: IcebergTable) -> None:
    """Its older versions have left the log, or it commits while the folder is listed."""
    before, newest = versions(table)
    seen = seen_at(table, before, None)
    newest.write_text(json.dumps(json.loads(newest.read_text()) | {"metadata-log": []}))
    aged(newest, HOUR / 6)
    assert seen_at(table, before, None).view.blockers == ()
    assert seen_at(table, newest, seen).view.blockers == ()


class Committing(LocalStorage):
    """A writer commits three versions while the folder is listed."""

    def __init__(self, table: IcebergTable) -> None:
        self._table = table

    def entries(self, location: str) -> Iterator[FileEntry]:
        for _ in range(3):
            self._table.append()
        return super().entries(location)


def test_versions_that_a_writer_commits_during_the_listing_hold_nothing_back(table: IcebergTable) -> None:
    """The catalog knows them when it is asked again. A hint leads to them."""
    require_newest(lambda: read_table(str(table.metadata_file), LocalStorage()), Committing(table), now=NOW)
    assert look(table, storage=Committing(table)).view.blockers == ()


def test_a_newer_version_is_found_whatever_compresses_it(table: IcebergTable) -> None:
    """iceberg-go compresses by zstd if the table says so."""
    raw = json.loads(table.metadata_file.read_text()) | {"last-sequence-number": 99}
    path = table.metadata / "00009-unknown.zstd.metadata.json"
    path.write_bytes(pa.compress(json.dumps(raw).encode(), codec="zstd", asbytes=True))
    aged(path, 2 * HOUR)
    with pytest.raises(PermanentError, match=r"zstd\.metadata\.json is a newer version"):
        ask(table)


@pytest.mark.parametrize(("begins_at", "is_fork"), [(4, True), (5, False), (0, False)])
def test_versions_beside_those_that_the_catalog_knows_are_anothers(
    table: IcebergTable, begins_at: int, *, is_fork: bool
) -> None:
    """Another catalog with as many commits, or fewer, needs the files of its own versions. What one failed commit has
    left is no version, and versions before the log may be any.
    """
    current = table.metadata / "00005-ours.metadata.json"
    table.metadata_file.rename(current)
    raw = json.loads(current.read_text())
    for number in range(begins_at, 6):
        before = {"metadata-file": f"{table.metadata}/{number - 1:05}-theirs.metadata.json", "timestamp-ms": 1}
        path = table.metadata / f"{number:05}-theirs.metadata.json"
        path.write_text(json.dumps({**raw, "metadata-log": [before]}))
        aged(path, 9 * DAY)
    if begins_at == 0:  # the log of the newest version begins after these
        for number in (4, 5):
            (table.metadata / f"{number:05}-theirs.metadata.json").unlink()
    log = tuple(f"{table.metadata}/{number:05}-ours.metadata.json" for number in (3, 4))
    metadata = replace(read_table(str(current), LocalStorage()), metadata_log=log)
    if is_fork:
        with pytest.raises(PermanentError, match=r"00005-theirs\.metadata\.json is a version of this table beside"):
            require_newest(lambda: metadata, LocalStorage(), now=NOW)
    else:
        require_newest(lambda: metadata, LocalStorage(), now=NOW)


def test_half_a_version_of_a_killed_writer_holds_nothing_back(table: IcebergTable) -> None:
    """No client has ever committed it."""
    path = table.metadata / "00009-half.metadata.json"
    path.write_bytes(table.metadata_file.read_bytes()[:100])
    aged(path, 2 * HOUR)
    ask(table)


def test_a_checksum_that_is_younger_than_its_version_is_no_version(table: IcebergTable) -> None:
    """Hadoop keeps it beside the file, and a copy may give it another time."""
    path = table.metadata / f".{table.metadata_file.name}.crc"
    path.write_bytes(b"crc\0\0\0\x02\0\x1b}")
    aged(path, 2 * HOUR)
    ask(table)


def test_a_listing_that_does_not_show_the_newest_version_is_not_believed(table: IcebergTable) -> None:
    """It is the listing of another folder, or an older one."""
    metadata = read_table(str(table.metadata_file), LocalStorage())
    table.metadata_file.unlink()
    with pytest.raises(TemporaryError, match="does not show"):
        require_newest(lambda: metadata, LocalStorage(), now=NOW)
