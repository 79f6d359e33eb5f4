"""What we read of real tables is what Hudi itself says of them (made by tests/fixtures/hudi/generate.py)."""

from __future__ import annotations

import json
import os
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.formats.hudi import HUDI, THOROUGH, HudiFormat
from lakewarden.planners.formats.hudi.deletion.guard import clean_overlaps
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.instant import InstantKind, Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import storage_for
from tests.support.hudi.hudi_says import instants, pending_compactions
from tests.support.hudi.hudi_table import CLEAN_PLAN, avro

FIXTURES = Path(__file__).parents[4] / "fixtures" / "hudi"
NAMES = sorted(path.stem for path in FIXTURES.glob("*.zip"))
MERGE_ON_READ = [name for name in NAMES if name.startswith("mor")]


def unpacked(name: str, folder: Path) -> Path:
    """Unpack a fixture with the modification times of its files."""
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(folder)
        for entry in sorted(archive.infolist(), key=lambda e: e.filename, reverse=True):
            written = datetime(*entry.date_time, tzinfo=UTC).timestamp()
            os.utime(folder / entry.filename, (written, written))
    return folder


def says(name: str) -> Any:
    return json.loads((FIXTURES / f"{name}.json").read_text())


def view_of(folder: Path, *, by: HudiFormat = HUDI, **options: Any) -> TableView:
    table = Table(
        id=TableId("trips"), format="hudi", location=str(folder), options=HudiTableOptions(writers="none", **options)
    )
    return by.observe(table, storage_for(table.location), None, now=datetime.now(UTC)).view


def test_there_is_a_table_of_every_version_and_type() -> None:
    """Nothing below passes because there was nothing to compare."""
    assert [f"{kind}_v{version}" for kind in ("cow", "mor") for version in (6, 8, 9)] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_instants_are_hudis_own(name: str, tmp_path: Path) -> None:
    """Requested time, action, state and completion time of every instant, in the same order. A heartbeat guards the
    write in flight for three intervals of a minute after its last beat.
    """
    folder = unpacked(name, tmp_path)
    timeline = view_of(folder).timeline
    assert instants(timeline) == says(name)["instants"]
    (write,) = timeline.writes_in_flight()
    beat = (folder / ".hoodie/.heartbeat" / write.time).stat().st_mtime
    assert write.guarded_until == datetime.fromtimestamp(beat, UTC) + timedelta(minutes=3)


@pytest.mark.parametrize("name", NAMES)
def test_a_real_table_is_read_without_faults_and_its_zone_is_proved(name: str, tmp_path: Path) -> None:
    """Nothing holds services back on a table without writers, except that it is a copy: its pending plans name files
    where it was made.
    """
    view = view_of(unpacked(name, tmp_path))
    assert view.faults == ()
    pending = {service for service in Service for _ in view.timeline.pending(service)}
    assert [blocker for blocker in view.blockers if "looks like a copy of" not in blocker.reason] == []
    copied = {service for blocker in view.blockers for service in blocker.services}
    assert copied == pending & {Service.CLEAN, Service.CLUSTERING}
    assert (view.name, view.version) == ("trips", name[-1])


@pytest.mark.parametrize("name", MERGE_ON_READ)
def test_one_of_everything_is_seen_and_counted_as_hudi_counts(name: str, tmp_path: Path) -> None:
    """Clustering is distinguished from a write, even if both are replacecommits, and a savepoint from its commit. Each
    pending compaction has its file groups, its log bytes and its author. The last compaction is followed by two
    completed writes; the first clustering and clean by more.
    """
    view = view_of(unpacked(name, tmp_path))
    timeline, backlogs = view.timeline, view.backlogs
    kinds = [service for service in Service if timeline.last_completed(service)]
    assert kinds == [Service.COMPACTION, Service.CLUSTERING, Service.CLEAN]
    assert [len(timeline.pending(s)) for s in kinds] == [1, 1, 1]
    assert timeline.last_completed(InstantKind.SAVEPOINT) is not None
    assert pending_compactions(timeline) == says(name)["pending_compactions"]
    assert [p.author for p in timeline.pending(Service.COMPACTION)] == ["run-compaction-7"]
    assert backlogs[Service.COMPACTION].commits == says(name)["delta_commits_since_compaction"] == 2
    assert backlogs[Service.COMPACTION].commits_since_request == 1
    assert (backlogs[Service.CLUSTERING].commits, backlogs[Service.CLEAN].commits) == (6, 7)


@pytest.mark.parametrize("name", MERGE_ON_READ)
def test_the_log_files_since_the_last_compaction_are_those_of_the_next_plan_and_one_more(
    name: str, tmp_path: Path
) -> None:
    """Its plan has one log file of p1 and one of p2, as Hudi says; after it p1 was written to once more."""
    view = view_of(unpacked(name, tmp_path), by=THOROUGH)
    (plan,) = says(name)["pending_compactions"]
    compaction = view.backlogs[Service.COMPACTION]
    assert (plan["file_groups"], compaction.log_files) == (2, 2)
    assert compaction.log_bytes is not None
    assert plan["bytes"] / 2 < compaction.log_bytes < plan["bytes"] * 3 / 2
    assert view.backlogs[Service.CLUSTERING].small_files == 3


@pytest.mark.parametrize("name", NAMES)
def test_the_partitions_of_real_writes_are_known(name: str, tmp_path: Path) -> None:
    """It compares those of completed writes, which only inserted in the first one, and of the write in flight."""
    view = view_of(unpacked(name, tmp_path), by=THOROUGH)
    writes = [i.time for i in view.timeline.instants if i.stands_for is InstantKind.WRITE and not i.pending]
    assert view.writers.touches is not None
    touched = {partition: (touch.instant, touch.updates) for partition, touch in view.writers.touches.items()}
    if name.startswith("cow"):
        assert touched == dict.fromkeys(("p0", "p1", "p2"), (writes[-1], True))
        assert list(view.writers.touching.values()) == [frozenset(("p0", "p1", "p2"))]
    else:
        assert touched == {"p0": (writes[3], True), "p1": (writes[-1], True), "p2": (writes[-2], True)}
        assert list(view.writers.touching.values()) == [frozenset(("p1",))]


@pytest.mark.parametrize("name", MERGE_ON_READ)
def test_a_clean_of_what_a_real_clustering_reads_does_not_pass_the_guard(name: str, tmp_path: Path) -> None:
    """What Hudi planned beside a savepoint and pending plans overlaps with none of them. It writes the inputs of a
    clustering as URIs, of a compaction as names: both are recognised.
    """
    folder = unpacked(name, tmp_path)
    timeline = view_of(folder).timeline
    (clean,), (clustering,), (compaction,) = (
        timeline.pending(s) for s in (Service.CLEAN, Service.CLUSTERING, Service.COMPACTION)
    )
    assert clean_overlaps(str(folder), storage_for(str(folder)), instant=clean.time) == ()
    (plan,) = (folder / ".hoodie").rglob(f"{clean.time}.clean.requested")
    everything = {"filePathsToBeDeletedPerPartition": {}, "partitionsToBeDeleted": ["p0", "p1", "p2"]}
    plan.write_bytes(avro(CLEAN_PLAN, everything))
    found = clean_overlaps(str(folder), storage_for(str(folder)), instant=clean.time)
    for needed in (clustering, compaction):
        files = {o.file for o in found if o.reason.startswith(f"{needed.action} {needed.time} ")}
        named = {"filePathsToBeDeletedPerPartition": {f.partition: [{"filePath": f"s3://b/t/{f.name}"}] for f in files}}
        plan.write_bytes(avro(CLEAN_PLAN, {**everything, **named, "partitionsToBeDeleted": []}))
        again = clean_overlaps(str(folder), storage_for(str(folder)), instant=clean.time)
        assert f"{needed.action} {needed.time} needs it" in {o.reason for o in again}


@pytest.mark.parametrize("name", NAMES)
def test_the_identity_is_the_moment_the_table_was_made(name: str, tmp_path: Path) -> None:
    """It outlives a rewriting of `hoodie.properties` and every commit."""
    folder = unpacked(name, tmp_path)
    before = view_of(folder).identity
    properties = folder / ".hoodie/hoodie.properties"
    properties.write_text("#rewritten\n" + properties.read_text())
    assert view_of(folder).identity == before
    assert before.created.startswith(says(name)["instants"][0]["time"][:8])
