"""Files that are old and unknown may be deleted. Files that are young, hidden, in doubt or of another owner may not."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid4, uuid5

import pyarrow as pa
import pytest

from lakewarden.planners.formats.iceberg.deletion import orphan_files
from lakewarden.planners.formats.iceberg.deletion.orphan_files import FolderListing, Probe, listed, spare_known
from lakewarden.planners.formats.iceberg.deletion.plans_beside import file_of, list_of, seen_file_of
from lakewarden.planners.formats.iceberg.metadata.files import VanishedError, read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError, TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import OrphansOptions, age_of_orphans
from lakewarden.planners.formats.iceberg.options.table_options import IcebergTableOptions
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.ports import FileEntry
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_table import IcebergTable
from tests.support.values import NOW

DAY = timedelta(days=1)
PROBE = Probe(path="metadata/lakewarden-orphans.json", size=5)


def put(path: Path | str, *, ago: timedelta = 5 * DAY, content: bytes = b"x") -> str:
    """Write a file of that age, and return its path."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    written = (NOW - ago).timestamp()
    os.utime(path, (written, written))
    return str(path)


def data_file(about: str) -> str:
    """Return a name as a writer of Iceberg makes it: the number of a task, and the UUID of a write."""
    return f"00000-7-{uuid5(NAMESPACE_URL, about)}-00001.parquet"


def probe(table: IcebergTable, *, ago: timedelta = timedelta(0)) -> Probe:
    """Write the plan beside the table now, by the storage's clock."""
    put(table.folder / PROBE.path, ago=ago, content=b"probe")
    return PROBE


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    """Make a table of three commits. All its files are old."""
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
    """Return the orphans of a current listing and the metadata read after it."""
    settings = OrphansOptions(**options)
    metadata = metadata_of(table)
    nobody_is_away = IcebergTableOptions.model_validate({"longest_outage": "0s", "flink_restores": "0s"})
    old = age_of_orphans(settings, nobody_is_away).age
    listing = listed(metadata, LocalStorage(), older_than=old, probe=probe(table), now=now)
    return left(listing, metadata, settings, lists=lists)


def left(
    listing: FolderListing,
    metadata: TableMetadata,
    options: OrphansOptions | None = None,
    *,
    lists: tuple[str, ...] = (),
) -> set[str]:
    """Compare a listing with the metadata read after it, and return the orphans."""
    found = set[str]()
    for candidates in listing.candidates():
        spare_known(candidates, listing, metadata, options or OrphansOptions(), LocalStorage(), lists=lists)
        found |= {file.path for file in candidates.files()}
    return found


def old_files(listing: FolderListing) -> set[str]:
    """Return the old files in a listing."""
    return {file.path for candidates in listing.candidates() for file in candidates.files()}


def test_what_is_old_and_unknown_is_an_orphan(table: IcebergTable) -> None:
    """This holds for data and metadata. Every file that the table knows stays, including its version hint and older
    versions.
    """
    lost = {put(table.folder / "data/p=0" / data_file("lost")), put(table.metadata / "lost-m0.avro")}
    assert orphans(table) == lost


def test_versions_that_only_older_versions_name_are_known(table: IcebergTable) -> None:
    """The log of one metadata file is bounded, and the table may be rolled back to each of them."""
    *older, previous, newest = (str(table.metadata / f"v{one}.metadata.json") for one in range(1, 5))
    named = [{"metadata-file": one, "timestamp-ms": 0} for one in older]
    put(previous, content=json.dumps(json.loads(Path(previous).read_bytes()) | {"metadata-log": named}).encode())
    metadata = replace(read_table(newest, LocalStorage()), metadata_log=(previous,))
    listing = listed(metadata, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    assert set(older) <= old_files(listing)
    assert not left(listing, metadata)


@pytest.mark.parametrize(
    ("young", "old", "options"), [(48, 96, {}), (23, 25, {"older_than": "0s"})], ids=["by default", "at least a day"]
)
def test_what_was_written_lately_may_be_a_commit_under_way(
    table: IcebergTable, young: int, old: int, options: dict[str, Any]
) -> None:
    """A commit writes its metadata last, and a long one takes hours. No setting lets younger files go."""
    put(table.folder / "data/p=0" / data_file("young"), ago=timedelta(hours=young))
    lost = put(table.folder / "data/p=0" / data_file("old"), ago=timedelta(hours=old))
    assert orphans(table, **options) == {lost}


@pytest.mark.parametrize(("ago", "ours"), [(DAY, 365 * DAY), (4 * DAY, -2 * DAY)], ids=["ahead", "behind"])
def test_of_two_clocks_that_differ_the_one_that_spares_more_files_counts(
    table: IcebergTable, ago: timedelta, ours: timedelta
) -> None:
    """The times of files are compared with the storage's own clock, and with the daemon's."""
    put(table.folder / "data/p=0" / data_file("young"), ago=ago)
    assert orphans(table, now=NOW + ours) == set()


def test_a_listing_that_does_not_show_what_was_written_a_moment_ago_is_not_believed(table: IcebergTable) -> None:
    """It is an old listing, or one of another folder."""
    metadata = metadata_of(table)
    with pytest.raises(TemporaryError, match=r"does not show metadata/lakewarden-orphans\.json"):
        listed(metadata, LocalStorage(), older_than=3 * DAY, probe=PROBE, now=NOW)
    earlier = replace(probe(table), size=4)
    with pytest.raises(TemporaryError, match="as it was written a moment ago"):
        listed(metadata, LocalStorage(), older_than=3 * DAY, probe=earlier, now=NOW)


def test_a_listing_that_fails_lets_nothing_go(table: IcebergTable) -> None:
    """The same holds if the listing of a subfolder fails."""
    put(table.folder / "data/p=0" / data_file("lost"))

    class Failing(LocalStorage):
        def entries(self, location: str) -> Iterator[FileEntry]:
            yield from itertools.islice(super().entries(location), 1)
            if location.endswith("p=0"):
                raise TemporaryError("the store is away")
            yield from itertools.islice(super().entries(location), 1, None)

    with pytest.raises(TemporaryError, match="the store is away"):
        listed(metadata_of(table), Failing(), older_than=3 * DAY, probe=probe(table), now=NOW)


def test_the_list_of_what_was_unknown_before_is_no_orphan(table: IcebergTable) -> None:
    """Each run that finds an orphan writes it. It may be older than every file that it names."""
    put(seen_file_of(str(table.folder)))
    assert orphans(table) == set()


def test_a_commit_that_lands_after_the_listing_is_not_lost(table: IcebergTable) -> None:
    """Metadata is read after the listing, never before it."""
    landing = table.file()
    put(landing.path)
    listing = listed(metadata_of(table), LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    assert landing.path in old_files(listing)
    table.append(landing)
    assert landing.path not in left(listing, metadata_of(table))


def test_files_of_every_snapshot_are_known_not_only_of_the_newest(table: IcebergTable) -> None:
    """Branches, tags and time travel read them."""
    audit = table.file(1)
    put(audit.path)
    table.commit("append", add=[audit], branch="audit")
    gone = table.live()[0]
    table.commit("delete", remove=[gone])
    assert orphans(table) == set()


def test_a_manifest_that_cannot_be_read_lets_nothing_go(table: IcebergTable) -> None:
    """It may name every file."""
    put(table.folder / "data/p=0" / data_file("lost"))
    next(table.metadata.glob("*-m0.avro")).unlink()
    with pytest.raises((CorruptMetadataError, VanishedError)):
        orphans(table)


def test_hidden_files_are_left_alone(table: IcebergTable) -> None:
    """Names that begin with `_` or `.` are no files of Iceberg. A checksum is deleted with its file."""
    for name in ("_SUCCESS", ".staging/x.parquet", "_temporary/0/x.parquet", "data/.f.parquet.crc"):
        put(table.folder / name)
    assert orphans(table) == set()


def test_a_table_in_a_folder_below_is_another_table(table: IcebergTable) -> None:
    """Its files stay, although this table knows none of them."""
    inner = IcebergTable(table.folder / "inner")
    inner.append(inner.file())
    for path in (*inner.metadata.iterdir(), inner.folder / "data/p=0" / data_file("x")):
        put(path, content=path.read_bytes() if path.exists() else b"")
    assert orphans(table) == set()


def unknown_version(table: IcebergTable, *, ago: timedelta, **said: Any) -> str:
    """Put a metadata file into the folder that the table does not know."""
    raw = json.loads(table.metadata_file.read_text()) | {key.replace("_", "-"): value for key, value in said.items()}
    return put(table.metadata / "00009-unknown.metadata.json", ago=ago, content=json.dumps(raw).encode())


def refused(table: IcebergTable) -> Exception:
    """Return why the orphans of a table with one lost file are left alone."""
    put(table.folder / "data/p=0" / data_file("lost"))
    known = metadata_of(table)
    metadata = replace(known, metadata_log=tuple(one for one in known.metadata_log if "unknown" not in one))
    listing = listed(metadata, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    with pytest.raises((PermanentError, TemporaryError)) as error:
        left(listing, metadata)
    return error.value


@pytest.mark.parametrize("ago", [timedelta(seconds=1), timedelta(hours=2), 5 * DAY])
def test_two_tables_in_one_folder_are_refused(table: IcebergTable, ago: timedelta) -> None:
    """It cannot be determined which table an unknown file belongs to: one table was renamed, and another created in its
    place. The metadata files of the first one may all be young.
    """
    unknown_version(table, ago=ago, table_uuid="another")
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "of another table" in str(error)


@pytest.mark.parametrize("newer", [{"last_updated_ms": 4e12}, {"last_sequence_number": 99}])
def test_a_catalog_that_another_is_ahead_of_deletes_nothing(table: IcebergTable, newer: dict[str, Any]) -> None:
    """A table may be registered in two catalogs, as during a migration. The files of newer versions are unknown to this
    one.
    """
    unknown_version(table, ago=2 * DAY, **{key: int(value) for key, value in newer.items()})
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "another catalog" in str(error)


def test_a_newer_version_that_is_compressed_by_zstd_is_no_half_written_file(table: IcebergTable) -> None:
    """iceberg-go writes such files. If one counted as what a killed writer left, its files would be orphans."""
    plain = Path(unknown_version(table, ago=2 * DAY, last_sequence_number=99))
    content = pa.compress(plain.read_bytes(), codec="zstd", asbytes=True)
    plain.unlink()
    put(table.metadata / "00009-unknown.zstd.metadata.json", ago=2 * DAY, content=content)
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "another catalog" in str(error)


def test_a_version_that_may_be_about_to_be_committed_is_waited_for(table: IcebergTable) -> None:
    """Its writer has written it, and the catalog has not answered yet. So the run yields, and nothing has failed. It
    comes back after as long as the file has been there, and when the commit cannot come any more. A commit of a live
    writer ends within seconds, and must not stop the service for an hour.
    """
    for ago, rest in ((5, 5), (40, 20), (0, 0.5), (-5, 0.5)):  # the clock of the file may be ahead
        unknown_version(table, ago=timedelta(minutes=ago), last_sequence_number=99)
        error = refused(table)
        assert isinstance(error, YieldError)
        assert error.delay == timedelta(minutes=rest)


def test_what_a_killed_writer_left_of_a_version_is_an_orphan_like_others(table: IcebergTable) -> None:
    """A half-written metadata file, and one of an attempt that lost to another commit, are no version of the table."""
    half = put(table.metadata / f"00001-{uuid4()}.metadata.json", content=table.metadata_file.read_bytes()[:100])
    empty = put(table.metadata / f"{uuid4()}.metadata.json", content=b"")
    metadata = metadata_of(table)
    log = tuple(one for one in metadata.metadata_log if one not in (half, empty))
    metadata = replace(metadata, metadata_log=log)
    listing = listed(metadata, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    assert left(listing, metadata) == {half, empty}


def test_a_manifest_that_is_newer_than_the_table_shows_another_one_at_work(table: IcebergTable) -> None:
    """Its metadata files are in another place (`write.metadata.path`)."""
    put(table.metadata / "unknown-m0.avro", ago=4 * DAY)
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "after the newest version of the table" in str(error)


def test_a_link_does_not_lead_out_of_the_tables_folder(table: IcebergTable, tmp_path: Path) -> None:
    """Files outside the folder are not deleted for this table."""
    put(tmp_path / "elsewhere" / "precious.parquet")
    (table.folder / "data" / "p=9").symlink_to(tmp_path / "elsewhere")
    assert orphans(table) == set()


def test_plans_beside_and_their_lists_are_known(table: IcebergTable) -> None:
    """This includes the plan of a clean, which may wait for an approval longer than orphans are kept."""
    run = RunId("r1")
    for service in (Service.CLEAN, Service.ORPHANS):
        put(file_of(service, str(table.folder), beside=True))
    put(file_of(Service.CLEAN, str(table.folder)))
    waiting = put(list_of(Service.CLEAN, str(table.folder), run))
    stray = put(list_of(Service.CLEAN, str(table.folder), RunId("r0")))
    assert orphans(table, lists=(waiting,)) == {stray}


def test_a_file_known_under_another_address_is_refused_or_left_alone(table: IcebergTable) -> None:
    """The same path in another store may be the same file."""
    doubtful = put(table.folder / "data/p=0" / data_file("x"))
    lost = put(table.folder / "data/p=0" / data_file("lost"))
    known = table.file()
    table.append(replace(known, path=f"hdfs://name-node:8020{doubtful}"))
    with pytest.raises(PermanentError, match=r"is known to the table as hdfs://name-node:8020/.*on_prefix_mismatch"):
        orphans(table)
    assert orphans(table, on_prefix_mismatch="ignore") == {lost}


# -- files of commits that were given up


def given_up(table: IcebergTable, *, ago: timedelta = 4 * DAY, follows: bool = True) -> tuple[TableMetadata, set[str]]:
    """Return the table as it is, and every file of a commit to it that the catalog never received: its data file,
    manifest, manifest list and version.
    """
    known, there = metadata_of(table), set(table.metadata.iterdir())
    written = table.file()
    put(written.path, ago=5 * DAY)
    table.append(written)
    log = [{"metadata-file": known.file if follows else "/elsewhere/v3.metadata.json", "timestamp-ms": 0}]
    table.metadata_file.write_text(json.dumps(json.loads(table.metadata_file.read_text()) | {"metadata-log": log}))
    new = {path for path in table.metadata.iterdir() if path not in there}
    for path in new:
        put(path, ago=ago, content=path.read_bytes())
    put(table.metadata / "version-hint.text", content=b"4")
    return known, {written.path, *map(str, new)}


def left_beside(table: IcebergTable, known: TableMetadata) -> set[str]:
    """Return the orphans of a current listing if the catalog has the version `known`."""
    listing = listed(known, LocalStorage(), older_than=3 * DAY, probe=probe(table), now=NOW)
    return left(listing, known)


def test_a_version_that_was_never_committed_holds_nothing_back_but_what_it_names(table: IcebergTable) -> None:
    """Its writer was killed before the commit reached the catalog, and no commit has followed. It may still belong to
    another catalog. So everything that it refers to stays until the next commit.
    """
    known, written = given_up(table)
    lost = put(table.folder / "data/p=0" / data_file("lost"))
    assert written <= {str(path) for path in table.folder.rglob("*")}
    assert left_beside(table, known) == {lost}


@pytest.mark.parametrize(("ago", "follows"), [(2 * DAY, True), (4 * DAY, False)], ids=["young", "ahead"])
def test_a_version_that_is_not_given_up_or_follows_upon_another_is_another_catalogs(
    table: IcebergTable, ago: timedelta, follows: bool
) -> None:
    """Only a catalog can be two versions ahead. A version that is younger than any orphan may still be committed."""
    known, _ = given_up(table, ago=ago, follows=follows)
    put(table.folder / "data/p=0" / data_file("lost"))
    with pytest.raises(PermanentError, match="another catalog"):
        left_beside(table, known)


@pytest.mark.parametrize("gone", ["*.metadata.json", "snap-*", "*-m0.avro"])
def test_what_a_failed_writer_left_on_an_idle_table_holds_nothing_else_back(table: IcebergTable, gone: str) -> None:
    """A manifest and its list stay with everything that they name. The next commit makes them orphans."""
    known, written = given_up(table)
    new = {Path(path) for path in written}
    for path in new:
        if path.match("*.metadata.json") or path.match(gone):
            path.unlink()
    lost = put(table.folder / "data/p=0" / data_file("lost"))
    found = left_beside(table, known)
    named = {str(path) for path in new if path.suffix == ".parquet"}
    assert found == ({lost, *named} if gone == "*-m0.avro" else {lost})

    put(table.metadata_file.with_name("v4.metadata.json"), ago=DAY, content=Path(known.file).read_bytes())
    assert left_beside(table, known) == {lost} | {str(path) for path in new if path.exists()}


def test_a_manifest_that_breaks_off_is_a_killed_writers_and_holds_nothing_back(table: IcebergTable) -> None:
    """No snapshot refers to it. The manifest itself stays until the next commit."""
    known, written = given_up(table)
    (manifest,) = (Path(path) for path in written if path.endswith("-m0.avro"))
    for path in map(Path, written):
        path.unlink()
    whole = next(table.metadata.glob("*-m0.avro")).read_bytes()
    for content in (b"", whole[:-5]):
        put(manifest, ago=4 * DAY, content=content)
        lost = put(table.folder / "data/p=0" / data_file("lost"))
        assert left_beside(table, known) == {lost}


def test_a_manifest_list_of_another_history_shows_another_table_at_work(table: IcebergTable, tmp_path: Path) -> None:
    """None of its snapshots follows a snapshot of this table. Its metadata files may be anywhere."""
    other = IcebergTable(tmp_path / "other", clock=ManualClock(NOW + DAY))
    other.append()
    other.append()
    for path in other.metadata.glob("snap-*"):
        put(table.metadata / path.name, ago=4 * DAY, content=path.read_bytes())
    error = refused(table)
    assert isinstance(error, PermanentError)
    assert "after the newest version of the table" in str(error)


# -- tables of very many files


class _Many(LocalStorage):
    """Shows files that do not exist: so many in each of so many partitions, all of them old."""

    def __init__(self, folder: Path, *, partitions: int, files: int = 1000) -> None:
        self._data, self._partitions, self._files = str(folder / "data"), partitions, files

    def entries(self, location: str) -> Iterator[FileEntry]:
        then = NOW - 5 * DAY
        if location == self._data:
            for p in range(self._partitions):
                yield FileEntry(name=f"p={p}", size=0, modified=then, is_folder=True)
        elif location.startswith(f"{self._data}/") and "/" in location.removeprefix(f"{self._data}/"):
            raise FileNotFoundError(location)
        elif location.startswith(self._data):
            for number in range(self._files):
                yield FileEntry(
                    name=f"00000-{number:07d}-3f6c1a52-0b7e-4f51-9d3c-5e8a7b6c4d21-00001.parquet", size=1, modified=then
                )
        else:
            yield from super().entries(location)


@pytest.mark.long
def test_one_folder_may_have_more_than_a_million_files(table: IcebergTable) -> None:
    """Its listing was refused, so that the unpartitioned table with the most orphans kept all of them."""
    metadata, beside = metadata_of(table), probe(table)
    storage = _Many(table.folder, partitions=1, files=1_000_100)

    listing = listed(metadata, storage, older_than=3 * DAY, probe=beside, now=NOW)

    assert sum(map(len, listing.old)) > 1_000_100


@pytest.mark.long
def test_the_listing_of_one_large_folder_takes_a_few_bytes_of_memory_for_each_file(table: IcebergTable) -> None:
    """It was held whole: a million entries took 400 MB."""
    metadata, beside, peaks = metadata_of(table), probe(table), []
    for files in (20_000, 60_000):
        tracemalloc.start()
        try:
            listed(metadata, _Many(table.folder, partitions=1, files=files), older_than=3 * DAY, probe=beside, now=NOW)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / 40_000 < 40


def test_a_large_folder_with_metadata_of_its_own_is_another_table(table: IcebergTable) -> None:
    """The folder of its metadata may come after ten thousand files."""
    other = table.folder / "data/other"
    put(other / "metadata/v1.metadata.json", content=b"{}")

    class Last(_Many):
        def entries(self, location: str) -> Iterator[FileEntry]:
            if location == str(other):
                yield from super().entries(location)
                yield FileEntry(name="metadata", size=0, modified=NOW, is_folder=True)
            elif location.startswith(str(table.folder / "data")):
                yield from LocalStorage().entries(location)
            else:
                yield from super().entries(location)

    storage = Last(table.folder, partitions=1, files=20_000)
    listing = listed(metadata_of(table), storage, older_than=3 * DAY, probe=probe(table), now=NOW)

    assert not [path for part in listing.old for path, _ in part if "other" in path]


def test_a_file_takes_a_few_bytes_of_memory_however_many_there_are(table: IcebergTable) -> None:
    """Ten million of them took 7.5 GB of memory. Their names are now on the worker's disk."""
    metadata, beside = metadata_of(table), probe(table)
    peaks = []
    for partitions in (2, 10):
        tracemalloc.start()
        try:
            storage = _Many(table.folder, partitions=partitions)
            listing = listed(metadata, storage, older_than=3 * DAY, probe=beside, now=NOW)
            unknown = 0
            for candidates in listing.candidates():
                spare_known(candidates, listing, metadata, OrphansOptions(), LocalStorage(), lists=())
                unknown += len(candidates.unknown())
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert unknown == 1000 * partitions
    assert (peaks[1] - peaks[0]) / 8000 < 40


@pytest.mark.parametrize("at_a_time", [1, 3, 1000])
def test_what_is_too_much_for_memory_is_held_against_the_metadata_in_parts(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    """Each part is compared with all metadata. The orphans are the same."""
    monkeypatch.setattr(orphan_files, "AT_A_TIME", at_a_time)
    lost = {put(table.folder / f"data/p={p}" / data_file("lost")) for p in range(5)}
    assert orphans(table) == lost
