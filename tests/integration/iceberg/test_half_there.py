"""Real tables whose metadata is half there: counts that nobody made, a tag without its snapshot, lost lists."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakewarden.executors.contract import Failed, FailureKind, NothingToDo, Succeeded
from lakewarden.planners.formats.iceberg.metadata.files import read_table
from lakewarden.planners.formats.iceberg.metadata.metadata import CorruptMetadataError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.storage import LocalStorage
from tests.integration.iceberg.deletions import AT_ONCE, EVERYTHING, Deletions
from tests.support.catalogs.sqlite_driver import sqlite_driver
from tests.support.iceberg.trips import Trips

if TYPE_CHECKING:
    from tests.support.daemon.daemon_process import DaemonProcess
    from tests.support.iceberg.trips import Lake
    from tests.support.pool.driver import Driver

pytestmark = pytest.mark.spark


def _plain(address: str) -> Path:
    return Path(re.sub(r"^file:/*", "/", address))


def _told_anew(manifest: Path, tell: Callable[[dict[str, Any]], None]) -> None:
    """Write a manifest again with other entries, under its own name and with its own header."""
    reader = fastavro.reader(io.BytesIO(manifest.read_bytes()))
    records = [record for record in reader if isinstance(record, dict)]
    for record in records:
        tell(record["data_file"])
    about = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
    with manifest.open("wb") as out:
        fastavro.writer(out, reader.writer_schema, records, metadata=about)
    manifest.with_name(f".{manifest.name}.crc").unlink(missing_ok=True)


def _add_without_mapping(lake: Lake, table: Trips, file: Path, rows: pa.Table) -> None:
    """Append a file of ORC or Avro by Iceberg's Java API, as a writer does that knows no name mapping."""
    if file.suffix == ".orc":
        orc.write_table(rows, file)
    else:
        fields = [{"name": one, "type": "long" if one == "id" else "string"} for one in rows.column_names]
        with file.open("wb") as out:
            fastavro.writer(out, {"type": "record", "name": "row", "fields": fields}, rows.to_pylist())
    jvm = lake.spark.sparkContext._jvm
    java = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(lake.spark._jsparkSession, table.sql)
    made = jvm.org.apache.iceberg.DataFiles.builder(java.spec()).withPath(str(file)).withFormat(file.suffix[1:])
    made = made.withFileSizeInBytes(file.stat().st_size).withRecordCount(rows.num_rows).build()
    java.newAppend().appendFile(made).commit()


def _rows_on_disk(trips: Trips) -> Mapping[int, str]:
    """Return the rows of all live data files: a reader may skip a file that seems to have no row."""
    rows: dict[int, str] = {}
    for path in trips.read().inspect.data_files()["file_path"].to_pylist():
        table = pq.ParquetFile(_plain(path)).read(columns=["id", "v"])
        rows.update(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))
    return rows


@pytest.mark.parametrize("records", [0, -1])
def test_files_that_nobody_has_counted_are_left_and_the_others_are_rewritten(
    driver: Driver, trips: Trips, records: int
) -> None:
    """One of the six commits was made by an import that counted no rows. No row of any file is lost."""
    manifests = sorted(trips.manifests(content=0))
    for path in manifests[:1]:
        _told_anew(_plain(path), lambda file: file.update(record_count=records))
    time.sleep(1.2)  # quiet_for
    outcome = driver.carry_out(trips, Service.COMPACTION)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["files_rewritten"] == 10
    assert trips.data_files() == 4
    assert _rows_on_disk(trips) == trips.expected


def test_files_without_field_ids_are_left_out_until_a_name_mapping_says_which_column_is_which(
    driver: Driver, lake: Lake, tmp_path: Path
) -> None:
    """Without a mapping engines read Parquet by position: a and b are swapped. A rewrite would make that final. The
    remedy is the one that the run tells, with the names as the files have them.
    """
    table = Trips(lake=lake, name="without_ids")
    run_sql = lake.spark.sql
    run_sql(f"create table {table.sql} (id bigint, a string, b string) using iceberg")
    files = [f"{tmp_path}/{number}.parquet" for number in range(3)]
    for number, file in enumerate(files):
        pq.write_table(pa.table({"id": [number], "b": ["b"], "a": ["a"]}), file)
    table.read().add_files(files)
    for id_, name in ((8, "other.avro"), (9, "other.orc")):
        _add_without_mapping(lake, table, tmp_path / name, pa.table({"id": [id_], "b": ["b"], "a": ["a"]}))
    run_sql(f"alter table {table.sql} unset tblproperties ('schema.name-mapping.default')")
    assert {tuple(one) for one in run_sql(f"select a, b from {table.sql} where id < 3").collect()} == {("b", "a")}
    time.sleep(1.2)  # quiet_for
    nothing = driver.carry_out(table, Service.COMPACTION, min_input_files=2)
    assert isinstance(nothing, NothingToDo), nothing
    assert ".parquet" in nothing.reason
    assert "set schema.name-mapping.default" in nothing.reason
    told = re.search(r"set schema.name-mapping.default to (\[.*\])", nothing.reason)
    assert told is not None
    run_sql(f"alter table {table.sql} set tblproperties ('write.format.default' = 'avro')")
    ordered = {"sort_order": "id", "untouched_for": "0s"}
    services: tuple[tuple[Service, dict[str, str]], ...] = ((Service.COMPACTION, {}), (Service.CLUSTERING, ordered))
    for first, (service, options) in enumerate(services):
        for number in (10 + 2 * first, 11 + 2 * first):
            run_sql(f"insert into {table.sql} values ({number}, 'a', 'b')")
        time.sleep(1.2)
        outcome = driver.carry_out(table, service, min_input_files=2, **options)
        assert isinstance(outcome, Succeeded), outcome
        assert "5 files have no field ids" in str(outcome.figures["left_out"])
    assert table.data_files() == 6

    run_sql(f"alter table {table.sql} set tblproperties ('schema.name-mapping.default' = '{told[1]}')")
    outcome = driver.carry_out(table, Service.COMPACTION, min_input_files=2)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["files_rewritten"] == 6
    assert "left_out" not in outcome.figures
    assert [tuple(one) for one in run_sql(f"select id, a, b from {table.sql} order by id").collect()] == [
        (number, "a", "b") for number in (0, 1, 2, 8, 9, 10, 11, 12, 13)
    ]


def test_a_rewrite_that_would_lose_rows_is_not_committed(driver: Driver, trips: Trips) -> None:
    """The manifest of one file says that its rows begin behind its end. Iceberg would skip them, and commit."""
    manifest = _plain(min(trips.manifests(content=0)))
    _told_anew(manifest, lambda file: file.update(split_offsets=[file["file_size_in_bytes"] - 1]))
    before = trips.read().metadata_location
    time.sleep(1.2)  # quiet_for
    failed = driver.carry_out(trips, Service.COMPACTION)
    assert isinstance(failed, Failed), failed
    assert failed.kind is FailureKind.PERMANENT
    assert "have 30 rows by their own footers, and the rewrite wrote 25" in failed.reason
    assert trips.read().metadata_location == before
    assert len(trips.files_on_disk()) == 12
    assert _rows_on_disk(trips) == trips.expected


def test_the_other_groups_are_rewritten_beside_one_that_would_lose_rows(driver: Driver, trips: Trips) -> None:
    """With partial progress, each group is a commit of its own."""
    manifest = _plain(min(trips.manifests(content=0)))

    def tell(file: dict[str, Any]) -> None:
        if file["partition"]["p"] == 0:
            file.update(split_offsets=[file["file_size_in_bytes"] - 1])

    _told_anew(manifest, tell)
    time.sleep(1.2)  # quiet_for
    failed = driver.carry_out(trips, Service.COMPACTION, partial_progress=True)
    assert isinstance(failed, Failed), failed
    assert failed.kind is FailureKind.PERMANENT
    assert "1 of 2 file groups were not rewritten" in failed.reason
    assert trips.files_by_partition() == {0: 6, 1: 1}
    assert _rows_on_disk(trips) == trips.expected


def test_a_file_with_more_rows_than_its_manifest_claims_is_named(driver: Driver, trips: Trips) -> None:
    """Iceberg would refuse the commit at each try. The new files are deleted."""
    _told_anew(_plain(min(trips.manifests(content=0))), lambda file: file.update(record_count=2))
    time.sleep(1.2)  # quiet_for
    failed = driver.carry_out(trips, Service.COMPACTION)
    assert isinstance(failed, Failed), failed
    assert failed.kind is FailureKind.PERMANENT
    assert "has 5 rows, and its manifest claims 2" in failed.reason
    assert len(trips.files_on_disk()) == 12


def test_a_file_with_fewer_rows_than_its_manifest_claims_is_rewritten(driver: Driver, trips: Trips) -> None:
    """What the file does not have cannot be lost."""
    _told_anew(_plain(min(trips.manifests(content=0))), lambda file: file.update(record_count=7))
    time.sleep(1.2)  # quiet_for
    outcome = driver.carry_out(trips, Service.COMPACTION)
    assert isinstance(outcome, Succeeded), outcome
    assert trips.found() == trips.expected


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("version", [2, 3])
def test_the_balance_counts_deletes_in_every_format(driver: Driver, lake: Lake, kind: str, version: int) -> None:
    """Position deletes and deletion vectors are taken from the rows of the old files."""
    table = lake.trips()
    properties = f"'write.format.default' = '{kind}', 'format-version' = '{version}'"
    lake.spark.sql(f"alter table {table.sql} set tblproperties ({properties})")
    for first in range(0, 60, 10):
        rows = ", ".join(f"({id_}, {id_ % 2}, 'v{id_}')" for id_ in range(first, first + 10))
        lake.spark.sql(f"insert into {table.sql} values {rows}")
    lake.spark.sql(f"delete from {table.sql} where id in (3, 4, 13, 14, 25, 36)")
    before = _seen(table)
    assert len(before) == 54
    time.sleep(1.2)  # quiet_for
    outcome = driver.carry_out(table, Service.COMPACTION)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["files_rewritten"] == 12
    assert _seen(table) == before


def _seen(table: Trips) -> Mapping[int, str]:
    return {row["id"]: row["v"] for row in table.lake.spark.sql(f"select id, v from {table.sql}").collect()}


def test_a_tag_without_its_snapshot_is_named_with_a_remedy_that_loses_no_commit(driver: Driver, trips: Trips) -> None:
    """The remedy is carried out with pyiceberg. Then the table is compacted."""
    trips.read().manage_snapshots().create_tag(trips.read().snapshots()[2].snapshot_id, "audit").commit()
    file = _plain(trips.read().metadata_location)
    metadata = json.loads(file.read_text())
    metadata["refs"]["audit"]["snapshot-id"] = 4711
    file.write_text(json.dumps(metadata))
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CorruptMetadataError) as raised:
        read_table(str(file), LocalStorage())
    remedy = re.findall(r"(?:create|remove)_tag\(.*?\)", str(raised.value))
    assert remedy == ["create_tag(table.metadata.current_snapshot_id, 'audit')", "remove_tag('audit')"]

    trips.read().manage_snapshots().create_tag(trips.read().snapshots()[-1].snapshot_id, "audit").commit()
    trips.read().manage_snapshots().remove_tag("audit").commit()
    time.sleep(1.2)  # quiet_for
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    assert trips.found() == trips.expected


def test_the_remedy_for_two_deletion_vectors_of_one_file_loses_no_row(driver: Driver, lake: Lake) -> None:
    """A writer that does not look for the first vector has added a second one. No engine reads the table then."""
    table = lake.trips()
    table.append(commits=6)
    lake.spark.sql(f"alter table {table.sql} set tblproperties ('format-version' = '3')")
    table.delete(0)
    java, jvm = Deletions(table).java(), lake.spark.sparkContext._jvm
    [one] = java.currentSnapshot().addedDeleteFiles(java.io())

    def copied(name: str) -> Any:
        old = _plain(one.location())
        shutil.copy(old, old.with_name(name))
        made = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.specs().get(one.specId())).copy(one)
        return made.withPath(str(one.location()).replace(old.name, name)).build()

    other = copied("other.puffin")
    java.newRowDelta().validateFromSnapshot(java.currentSnapshot().snapshotId()).addDeletes(other).commit()
    with pytest.raises(Exception, match="multiple DVs"):
        _seen(table)
    time.sleep(1.2)  # quiet_for
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Failed)

    remedy = java.newRowDelta().validateFromSnapshot(java.currentSnapshot().snapshotId())
    remedy.removeDeletes(one).removeDeletes(other).addDeletes(copied("both.puffin")).commit()
    assert _seen(table) == table.expected
    assert isinstance(driver.carry_out(table, Service.COMPACTION), Succeeded)
    assert _seen(table) == table.expected


@pytest.mark.parametrize("is_list", [False, True])
def test_what_an_old_snapshot_has_lost_hinders_no_clean(driver: Driver, trips: Trips, *, is_list: bool) -> None:
    """The snapshot expires, and what can be resolved is deleted. Then orphans has nothing that hinders it."""
    table = Deletions(trips)
    first, old = trips.read().snapshots()[1:3]
    time.sleep(1.2)  # quiet_for
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    trips.append()
    manifests = {one.manifest_path for one in old.manifests(trips.read().io)}
    manifests -= {one.manifest_path for one in first.manifests(trips.read().io)}
    lost = _plain(old.manifest_list if is_list else min(manifests))
    lost.unlink()
    unknown = table.folder / "data" / "p=0" / f"00000-9-{uuid4()}-00001.parquet"
    unknown.touch()
    for path in table.folder.rglob("*"):
        os.utime(path, (time.time() - 10 * 86_400,) * 2)
    hindered = driver.carry_out(table, Service.ORPHANS, unknown_for="0s")
    assert isinstance(hindered, Failed)
    assert hindered.kind is FailureKind.PERMANENT
    assert lost.name in hindered.reason

    outcome = driver.carry_out(table, Service.CLEAN, **EVERYTHING)
    assert isinstance(outcome, Succeeded), outcome
    assert outcome.figures["metadata_files_lost"] == 1
    assert outcome.figures["snapshots_expired"] == 7
    assert trips.found() == trips.expected
    leaked = table.on_disk() - table.known()
    assert isinstance(driver.carry_out(table, Service.ORPHANS, unknown_for="0s"), Succeeded)
    assert {str(unknown)} <= leaked
    assert table.on_disk() == table.known()
    assert trips.found() == trips.expected


@pytest.mark.parametrize("what", ["list lost", "list cut", "manifest lost", "manifest cut"])
def test_a_snapshot_that_stays_without_its_list_is_expired_by_the_remedy(
    driver: Driver, trips: Trips, what: str
) -> None:
    """Clean and orphans delete nothing before, and name the tag. Either way of the remedy loses no row."""
    table = Deletions(trips)
    old = trips.read().snapshots()[2]
    trips.read().manage_snapshots().create_tag(old.snapshot_id, "audit").commit()
    time.sleep(1.2)  # quiet_for
    assert isinstance(driver.carry_out(trips, Service.COMPACTION), Succeeded)
    trips.append()
    manifests = [one.manifest_path for one in old.manifests(trips.read().io)]
    lost = _plain(old.manifest_list if what.startswith("list") else min(manifests))
    content = lost.read_bytes()[:-100]
    lost.unlink()
    if what.endswith("cut"):
        lost.write_bytes(content)
    unknown = table.folder / "data" / "p=0" / f"00000-9-{uuid4()}-00001.parquet"
    unknown.touch()
    ago = time.time() - 10 * 86_400
    for path in table.folder.rglob("*"):
        os.utime(path, (ago, ago))
    before = table.on_disk()
    for service, options in ((Service.CLEAN, EVERYTHING), (Service.ORPHANS, {"unknown_for": "0s"})):
        failed = driver.carry_out(table, service, **options)
        assert isinstance(failed, Failed), (service, failed)
        assert failed.kind is FailureKind.PERMANENT
        assert f"snapshot {old.snapshot_id} (the tag 'audit') is missing its manifest" in failed.reason
        assert f"by_id({old.snapshot_id})" in failed.reason
    assert table.on_disk() == before

    trips.read().manage_snapshots().remove_tag("audit").commit()
    if what.startswith("list"):
        trips.read().maintenance.expire_snapshots().by_id(old.snapshot_id).commit()
        assert table.on_disk() == before
    else:
        with contextlib.suppress(Exception):  # it has expired the snapshot by then
            table.expire_by_icebergs_own_action(old.snapshot_id)
    assert old.snapshot_id not in table.snapshots()
    assert isinstance(driver.carry_out(table, Service.CLEAN, **EVERYTHING), Succeeded)
    assert isinstance(driver.carry_out(table, Service.ORPHANS, unknown_for="0s"), Succeeded)
    assert not unknown.exists()
    assert table.on_disk() == table.known()
    assert trips.found() == trips.expected


@dataclass
class Neglected:
    """The table as an owner configures it who wants nothing kept."""

    trips: Trips

    @property
    def configured(self) -> Mapping[str, Any]:
        return {**self.trips.configured, "options": {**self.trips.options, **AT_ONCE}}

    @property
    def catalogs(self) -> Mapping[str, Any]:
        return self.trips.catalogs


def test_a_daemon_heals_what_it_can_and_names_the_rest_before_a_run(
    trips: Trips, daemon_of: Callable[..., DaemonProcess]
) -> None:
    """Files that nobody has counted, wrong split offsets, and a snapshot without its manifest list."""
    uncounted = min(trips.manifests(content=0))
    _told_anew(_plain(uncounted), lambda file: file.update(record_count=-1))
    trips.append()
    _plain(trips.read().snapshots()[1].manifest_list).unlink()
    due: Mapping[str, Any] = {"trigger": {"num_commits": 1000}}
    services = {"compaction": due, "clean": {**due, "options": EVERYTHING}, "orphans": due}
    conf = {"spark.driver.extraClassPath": str(sqlite_driver())}
    daemon = daemon_of(Neglected(trips), services, formats=["iceberg"], conf=conf)
    daemon.start()
    shown = daemon.until(lambda: _observed(daemon))
    assert any("2 of its data files have no row according to their manifests" in one for one in shown["warnings"])
    asked = daemon.post("/v1/tables/sales.orders/services/orphans/runs")
    assert asked.status_code == 409
    assert "is missing its manifest list" in asked.text

    assert _asked_for(daemon, "compaction")["state"] == "SUCCEEDED"
    assert _asked_for(daemon, "clean")["figures"]["metadata_files_lost"] == 1
    assert _asked_for(daemon, "orphans")["state"] == "SUCCEEDED"
    assert _rows_on_disk(trips) == trips.expected

    trips.append(commits=6)
    newest = max(trips.manifests(content=0), key=lambda path: _plain(path).stat().st_mtime)
    _told_anew(_plain(newest), lambda file: file.update(split_offsets=[file["file_size_in_bytes"] - 1]))
    failed = _asked_for(daemon, "compaction")
    assert failed["state"] == "FAILED"
    assert "by their own footers, and the rewrite wrote" in str(failed)
    assert _rows_on_disk(trips) == trips.expected


def _asked_for(daemon: DaemonProcess, service: str) -> dict[str, Any]:
    """Ask for a run as soon as nothing blocks it, and return how it ended."""
    asked = f"/v1/tables/sales.orders/services/{service}/runs"
    daemon.until(lambda: daemon.post(asked).status_code == 202)
    daemon.until(lambda: daemon.runs(service)[0]["state"] in {"SUCCEEDED", "FAILED", "YIELDED"})
    return daemon.runs(service)[0]


def _observed(daemon: DaemonProcess) -> dict[str, Any] | None:
    table = daemon.get("/v1/tables/sales.orders")
    return table if table and table.get("observed_at") else None
