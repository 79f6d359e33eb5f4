"""Orphans: what is old and unknown may go; what is young, hidden, somebody else's or in doubt may not."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.iceberg.deletion import first_seen
from lakewarden.planners.formats.iceberg.deletion.orphan_files import Listing, Probe, listed, spare_known
from lakewarden.planners.formats.iceberg.deletion.plans_beside import file_of, list_of
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError, TableMetadata
from lakewarden.planners.formats.iceberg.options.ages import age_of_orphans
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.ports import MOST_ENTRIES, FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg_table import IcebergTable
from tests.support.values import NOW

DAY = timedelta(days=1)
PROBE = Probe(path="metadata/lakewarden-orphans.json", size=5)


def put(path: Path | str, *, ago: timedelta = 5 * DAY, content: bytes = b"x") -> str:
    """Write a file that is as old as that, and return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    written = (NOW - ago).timestamp()
    os.utime(path, (written, written))
    return str(path)


def probe(table: IcebergTable, *, ago: timedelta = timedelta(0)) -> Probe:
    """Let the plan beside have been written just now, by the storage's clock."""
    put(table.folder / PROBE.path, ago=ago, content=b"probe")
    return PROBE


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Make a table of three commits, all of whose files are old."""
    made = IcebergTable(tmp_path / "trips")
    for _ in range(3):
        made.append()
    for file in made.live():
        put(file.path)
    for path in made.metadata.iterdir():
        put(path, content=path.read_bytes())
    return made


def metadata_of(table: IcebergTable) -> TableMetadata:
    log = tuple(str(path) for path in sorted(table.metadata.glob("*.metadata.json")) if path != table.metadata_file)
    return replace(read_table(str(table.metadata_file), LocalStorage()), metadata_log=log)


def orphans(table: IcebergTable, *, now: datetime = NOW, lists: tuple[str, ...] = (), **options: Any) -> set[str]:
    """Return the orphans of a listing of now and the metadata after it."""
    settings = OrphansOptions(**options)
    metadata = metadata_of(table)
    nobody_is_away = IcebergTableOptions.model_validate({"longest_outage": "0s", "flink_restores": "0s"})
    old = age_of_orphans(settings, nobody_is_away).age
    listing = listed(metadata, LocalStorage(), older_than=old, probe=probe(table), now=now)
    spare(listing, metadata, settings, lists=lists)
    return {file.path for file in listing.suspects.files()}


def spare(
    listing: Listing,
    metadata: TableMetadata,
    options: OrphansOptions | None = None,
    *,
    lists: tuple[str, ...] = (),
) -> None:
    """Hold a listing against the metadata after it."""
    spare_known(listing, metadata, options or OrphansOptions(), LocalStorage(), lists=lists)


def test_what_is_old_and_unknown_is_an_orphan(table: IcebergTable) -> None:
    """Data and metadata alike; all that the table knows stays, its version hint and its older versions included."""
    left = {put(table.folder / "data/p=0/lost.parquet"), put(table.metadata / "lost-m0.avro")}
    assert orphans(table) == left


def test_versions_that_only_older_versions_name_are_known(table: IcebergTable) -> None:
    """The log of one metadata file is bounded, and somebody may go back by each of them."""
    *older, previous, newest = (str(table.metadata / f"v{one}.metadata.json") for one in range(1, 5))
    named = [{"metadata-file": one, "timestamp-ms": 0} for one in older]
    put(previous, content=json.dumps(json.loads(Path(previous).read_bytes()) | {"metadata-log": named}).encode())
    metadata = replace(read_table(newest, LocalStorage()), metadata_log=(previous,))
    listing = listed(metadata, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    assert all(one in listing.suspects for one in older)
    spare(listing, metadata)
    assert not listing.suspects


def test_what_was_written_lately_may_be_a_commit_under_way(table: IcebergTable) -> None:
    """Its metadata comes last."""
    put(table.folder / "data/p=0/young.parquet", ago=2 * DAY)
    old = put(table.folder / "data/p=0/old.parquet", ago=4 * DAY)
    assert orphans(table) == {old}


def test_no_setting_lets_younger_files_go_than_those_of_a_day(table: IcebergTable) -> None:
    """A long commit is under way for hours."""
    put(table.folder / "data/p=0/young.parquet", ago=timedelta(hours=23))
    old = put(table.folder / "data/p=0/old.parquet", ago=timedelta(hours=25))
    assert orphans(table, older_than="0s") == {old}


def test_a_clock_of_ours_that_is_ahead_makes_nothing_old(table: IcebergTable) -> None:
    """The storage's own clock is what files' times are held against."""
    put(table.folder / "data/p=0/young.parquet", ago=DAY)
    assert orphans(table, now=NOW + 365 * DAY) == set()


def test_a_clock_of_ours_that_is_behind_makes_files_younger_and_never_older(table: IcebergTable) -> None:
    """Where the two do not agree, the one that spares more is believed."""
    put(table.folder / "data/p=0/lost.parquet", ago=4 * DAY)
    assert orphans(table, now=NOW - 2 * DAY) == set()


def test_a_listing_that_does_not_show_what_was_written_a_moment_ago_is_not_believed(table: IcebergTable) -> None:
    """It is not of now, or of another folder."""
    metadata = metadata_of(table)
    with pytest.raises(TemporaryError, match=r"does not show metadata/lakewarden-orphans\.json"):
        listed(metadata, LocalStorage(), older_than=3 * DAY, probe=PROBE, now=NOW)
    earlier = replace(probe(table), size=4)
    with pytest.raises(TemporaryError, match="as it was written a moment ago"):
        listed(metadata, LocalStorage(), older_than=3 * DAY, probe=earlier, now=NOW)


def test_a_listing_that_fails_lets_nothing_go(table: IcebergTable) -> None:
    """Nor one that fails in a folder below."""
    put(table.folder / "data/p=0/lost.parquet")

    class Failing(LocalStorage):
        def listing(self, location: str, *, most: int = MOST_ENTRIES) -> list[FileEntry]:
            if location.endswith("p=0"):
                raise TemporaryError("the store is away")
            return list(super().listing(location, most=most))

    with pytest.raises(TemporaryError, match="the store is away"):
        listed(metadata_of(table), Failing(), older_than=3 * DAY, probe=probe(table), now=NOW)


def test_the_list_of_what_was_unknown_before_is_no_orphan(table: IcebergTable) -> None:
    """It is written by each run that finds anything, and may be older than all that it tells of."""
    put(first_seen.file_of(str(table.folder)))
    assert orphans(table) == set()


def test_a_commit_that_lands_after_the_listing_is_not_lost(table: IcebergTable) -> None:
    """Metadata is read after the listing, never before it."""
    landing = table.file()
    put(landing.path)
    listing = listed(metadata_of(table), LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    assert landing.path in listing.suspects
    table.append(landing)
    spare(listing, metadata_of(table))
    assert landing.path not in listing.suspects


def test_files_of_every_snapshot_are_known_not_only_of_the_newest(table: IcebergTable) -> None:
    """Branches, tags and time travel read them."""
    audit = table.file(1)
    put(audit.path)
    table.commit("append", add=[audit], branch="audit")
    gone = table.live()[0]
    table.commit("delete", remove=[gone])
    assert orphans(table) == set()


def test_a_manifest_that_cannot_be_read_lets_nothing_go(table: IcebergTable) -> None:
    """It may know every file."""
    put(table.folder / "data/p=0/lost.parquet")
    next(table.metadata.glob("*-m0.avro")).unlink()
    with pytest.raises((CorruptMetadataError, VanishedError)):
        orphans(table)


def test_hidden_files_are_left_alone(table: IcebergTable) -> None:
    """Names that begin with `_` or `.` are no files of Iceberg's; checksums go with the file they are of."""
    for name in ("_SUCCESS", ".staging/x.parquet", "_temporary/0/x.parquet", "data/.f.parquet.crc"):
        put(table.folder / name)
    assert orphans(table) == set()


def test_a_table_in_a_folder_below_is_another_table(table: IcebergTable) -> None:
    """It stays whole, though this one knows none of its files."""
    inner = IcebergTable(table.folder / "inner")
    inner.append(inner.file())
    for path in (*inner.metadata.iterdir(), inner.folder / "data/p=0/x.parquet"):
        put(path, content=path.read_bytes() if path.exists() else b"")
    assert orphans(table) == set()


def unknown_version(table: IcebergTable, *, ago: timedelta, **said: Any) -> str:
    """Put a metadata file into the folder that the table does not know."""
    raw = json.loads(table.metadata_file.read_text()) | {key.replace("_", "-"): value for key, value in said.items()}
    return put(table.metadata / "00009-unknown.metadata.json", ago=ago, content=json.dumps(raw).encode())


def refused(table: IcebergTable) -> Exception:
    """Return why the orphans of a table, one file of which is lost, are left alone."""
    put(table.folder / "data/p=0/lost.parquet")
    known = metadata_of(table)
    metadata = replace(known, metadata_log=tuple(one for one in known.metadata_log if "unknown" not in one))
    listing = listed(metadata, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    with pytest.raises((PermanentError, TemporaryError)) as error:
        spare(listing, metadata)
    return error.value


@pytest.mark.parametrize("ago", [timedelta(seconds=1), timedelta(hours=2), 5 * DAY])
def test_two_tables_in_one_folder_are_refused(table: IcebergTable, ago: timedelta) -> None:
    """Whose an unknown file is cannot be told: one table was renamed, and another made where it lies. Its metadata
    files that are left may all be young.
    """
    unknown_version(table, ago=ago, table_uuid="another")
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "of another table" in str(error)


@pytest.mark.parametrize("newer", [{"last_updated_ms": 4e12}, {"last_sequence_number": 99}])
def test_a_catalog_that_another_is_ahead_of_deletes_nothing(table: IcebergTable, newer: dict[str, Any]) -> None:
    """A table that is registered in two catalogs, as in migrations: the files of newer versions are unknown here."""
    unknown_version(table, ago=2 * DAY, **{key: int(value) for key, value in newer.items()})
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "another catalog" in str(error)


def test_a_version_that_may_be_about_to_be_committed_is_waited_for(table: IcebergTable) -> None:
    """Its writer has written it, and the catalog has not answered yet."""
    unknown_version(table, ago=timedelta(minutes=5), last_sequence_number=99)
    assert isinstance(refused(table), TemporaryError)


def test_what_a_killed_writer_left_of_a_version_is_an_orphan_like_others(table: IcebergTable) -> None:
    """Half a metadata file, and one of an attempt that others were faster than, are no table's version."""
    half = put(table.metadata / "half.metadata.json", content=table.metadata_file.read_bytes()[:100])
    empty = put(table.metadata / "empty.metadata.json", content=b"")
    metadata = metadata_of(table)
    log = tuple(one for one in metadata.metadata_log if one not in (half, empty))
    metadata = replace(metadata, metadata_log=log)
    listing = listed(metadata, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    spare(listing, metadata)
    assert {file.path for file in listing.suspects.files()} == {half, empty}


def test_a_manifest_that_is_newer_than_the_table_shows_another_one_at_work(table: IcebergTable) -> None:
    """Its metadata files lie elsewhere (`write.metadata.path`)."""
    put(table.metadata / "unknown-m0.avro", ago=4 * DAY)
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "after the newest version of the table" in str(error)


def test_a_link_does_not_lead_out_of_the_tables_folder(table: IcebergTable, tmp_path: Path) -> None:
    """What lies elsewhere is not this table's to delete."""
    put(tmp_path / "elsewhere" / "precious.parquet")
    (table.folder / "data" / "p=9").symlink_to(tmp_path / "elsewhere")
    assert orphans(table) == set()


def test_plans_beside_and_their_lists_are_known(table: IcebergTable) -> None:
    """Also a clean's, which may wait for a person for longer than orphans are left."""
    run = RunId("r1")
    for service in (Service.CLEAN, Service.ORPHANS):
        put(file_of(service, str(table.folder), beside=True))
    put(file_of(Service.CLEAN, str(table.folder)))
    waiting = put(list_of(Service.CLEAN, str(table.folder), run))
    stray = put(list_of(Service.CLEAN, str(table.folder), RunId("r0")))
    assert orphans(table, lists=(waiting,)) == {stray}


def test_a_file_known_under_another_address_is_refused_or_left_alone(table: IcebergTable) -> None:
    """The same path in another store may be the same file."""
    doubtful = put(table.folder / "data/p=0/x.parquet")
    lost = put(table.folder / "data/p=0/lost.parquet")
    known = table.file()
    table.append(replace(known, path=f"hdfs://name-node:8020{doubtful}"))
    with pytest.raises(PermanentError, match=r"is known to the table as hdfs://name-node:8020/.*on_prefix_mismatch"):
        orphans(table)
    assert orphans(table, on_prefix_mismatch="ignore") == {lost}
