"""One observation of an Iceberg table: its cost, what it keeps, and its errors if something is missing."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from lakewarden.planners.formats.iceberg import ICEBERG
from lakewarden.planners.formats.iceberg import format as formats
from lakewarden.planners.formats.iceberg.backlog.blockers import UnreadableSnapshots
from lakewarden.planners.formats.iceberg.backlog.memo import Memo
from lakewarden.planners.formats.iceberg.catalogs.pointers import Pointer
from lakewarden.planners.formats.iceberg.catalogs.settings import Catalog, HadoopCatalog
from lakewarden.planners.formats.iceberg.deletion.catalog_behind import VersionsSeen
from lakewarden.planners.formats.iceberg.deletion.plans_beside import DeletionPlan, PlanBeside, content_of, file_of
from lakewarden.planners.formats.iceberg.observing import observed
from lakewarden.planners.model.clock import ManualClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service, State
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation
from lakewarden.planners.storage import LocalStorage
from tests.support.iceberg.iceberg_look import CountingStorage, files_in, look, registered, view_of
from tests.support.iceberg.iceberg_table import POSITION_DELETES, IcebergTable

RUN = RunId("run-7")


@pytest.fixture
def table(tmp_path: Path) -> IcebergTable:
    return IcebergTable(tmp_path / "trips", clock=ManualClock())


def content(view: TableView) -> TableView:
    """Return the view without its time."""
    return replace(view, observed_at=view.observed_at.min)


def memo_of(observation: Observation) -> Memo:
    assert isinstance(observation.memo, Memo)
    return observation.memo


def manifests_read(storage: CountingStorage) -> list[str]:
    return [name for name in storage.names if name.endswith("-m0.avro")]


def test_a_table_is_called_by_its_folder_its_format_version_and_its_uuid(table: IcebergTable) -> None:
    """Messages show the name and the version. Leases use the identity."""
    view = view_of(table)
    assert (view.name, view.kind, view.version) == ("trips", "v2", "2")
    assert str(view.identity) == f"{table.folder}#{table.uuid}"


def test_a_copied_folder_is_not_the_folder_of_its_original(tmp_path: Path) -> None:
    """The copy says that it lies where the original does. It is blocked for that, and the original is served."""
    original = IcebergTable(tmp_path / "db" / "trips", clock=ManualClock())
    shutil.copytree(original.folder, tmp_path / "db" / "copy")
    lake = HadoopCatalog(type="hadoop", warehouse=str(tmp_path))

    def folder(name: str) -> str:
        named = replace(registered(f"catalog://lake/db.{name}"), catalog=lake)
        return ICEBERG.observe(named, LocalStorage(), None, now=original.clock.now()).view.folder

    assert [folder("trips"), folder("copy")] == [str(original.folder), ""]
    assert not view_of(original).folder


def test_a_manifest_is_read_once(table: IcebergTable) -> None:
    """The next observation reads what later commits have added. Of an unchanged table it reads nothing."""
    for p in range(5):
        table.append(table.file(p))
    first = look(table)
    table.append(table.file(5))
    table.append(table.file(6))

    counting = CountingStorage()
    second = look(table, previous=first, storage=counting)
    assert len(manifests_read(counting)) == 2
    third = look(table, previous=second, storage=counting)
    assert len(manifests_read(counting)) == 2
    assert len(files_in(third)) == 7


def test_what_an_update_touched_is_read_once(table: IcebergTable) -> None:
    """Its manifests may be gone from the table when they are asked for again."""
    table.append()
    table.commit("delete", add=[table.file(content=POSITION_DELETES)])
    first = look(table)
    table.rewrite_manifests()

    counting = CountingStorage()
    second = look(table, previous=first, storage=counting)
    assert (second.view.writers.updated or {}).keys() == {"p=0"}
    assert len([name for name in counting.names if name.startswith("snap-")]) == 1


def test_a_manifest_is_kept_only_as_long_as_the_table_has_it(table: IcebergTable) -> None:
    """Manifests that a rewrite has replaced are forgotten."""
    for _ in range(6):
        table.append()
    first = look(table)
    table.rewrite_manifests()
    second = look(table, previous=first)
    assert (len(memo_of(first).digests), len(memo_of(second).digests)) == (6, 1)
    assert len(files_in(second)) == 6


def test_nothing_is_kept_of_files_that_no_policy_asks_for(table: IcebergTable) -> None:
    """So thousands of tables fit into a daemon that only cleans them."""
    table.append()
    seen = look(table, Service.CLEAN, Service.ORPHANS, Service.ARCHIVE)
    assert replace(memo_of(seen), lost=UnreadableSnapshots(), versions=VersionsSeen()) == Memo()


def test_a_table_without_a_snapshot_has_no_files_and_no_faults(table: IcebergTable) -> None:
    """It was created and never written to."""
    view = view_of(table, *ICEBERG.services)
    assert (view.timeline.instants, view.faults) == ((), ())
    assert view.writers.last_commit_at is None


STEPS = st.lists(st.sampled_from(["append", "merge", "drop", "rewrite", "manifests", "look", "wait"]), max_size=10)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_reading_only_what_is_new_brings_the_same_view_as_reading_everything(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str]
) -> None:
    """The kept data only saves reading. If a view is declared unchanged, a new observation returns the same view."""
    clock = ManualClock()
    table = IcebergTable(tmp_path_factory.mktemp("t") / "trips", clock=clock)
    kept = look(table, *ICEBERG.services)
    for step in steps:
        clock.advance(timedelta(seconds=7))
        match step:
            case "append":
                table.append(table.file(len(table.snapshots) % 3))
            case "merge":
                table.commit("overwrite", add=[table.file(content=POSITION_DELETES), table.file()])
            case "drop" if table.live():
                table.commit("delete", remove=table.live()[:1])
            case "rewrite" if any(file.p == 0 for file in table.live()):
                table.rewrite(summary={"lakewarden.run-id": "r", "lakewarden.service": "compaction"})
            case "manifests" if table.live():
                table.rewrite_manifests()
            case "wait":
                clock.advance(timedelta(minutes=2))
        anew = look(table, *ICEBERG.services)
        if kept.vouched_for(token=anew.token, now=clock.now()):
            assert content(kept.view) == content(anew.view)
        if step == "look":
            kept = look(table, *ICEBERG.services, previous=kept)
            assert content(kept.view) == content(anew.view)


def test_a_manifest_that_cannot_be_read_is_a_fault_and_no_error(table: IcebergTable) -> None:
    """The fault is named and the rest is shown. The view is not kept, and the manifest is read again when it is
    repaired.
    """
    table.append(table.file(1))
    (broken,) = table.metadata.glob("*-m0.avro")
    whole = broken.read_bytes()
    table.append(table.file(2))
    broken.write_bytes(whole[:-10])

    seen = look(table)
    assert len(seen.view.faults) == 1
    assert broken.name in seen.view.faults[0]
    assert [file.partition for file in files_in(seen)] == ["p=2"]
    assert not seen.vouched_for(token=seen.token, now=table.clock.now())

    broken.write_bytes(whole)
    mended = look(table, previous=seen)
    assert mended.view.faults == ()
    assert len(files_in(mended)) == 2


def test_a_table_too_large_for_one_look_is_read_in_several(
    table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No service runs before all is read, and nothing is read twice, even if commits come in between. Such a table was
    once given up at the deadline and started again, for ever.
    """
    monkeypatch.setattr(formats, "TIMEOUT", timedelta(0))
    for p in range(6):
        table.append(table.file(p))
    counting, seen = CountingStorage(), None
    for _ in range(6):
        seen = look(table, previous=seen, storage=counting)
        if len(files_in(seen)) < 6:
            assert "manifests have been read so far" in seen.view.faults[0]
            assert not seen.vouched_for(token=seen.token, now=table.clock.now())
    assert seen is not None
    assert seen.view.faults == ()
    assert len(files_in(seen)) == 6
    read = [name for name in counting.names if name.endswith("-m0.avro")]
    assert len(read) == len(set(read)) == 6


def test_a_fault_is_told_once(table: IcebergTable) -> None:
    """The manifest of an update is read for its files, and for what they touched."""
    table.commit("overwrite", add=[table.file()])
    (broken,) = table.metadata.glob("*-m0.avro")
    broken.write_bytes(b"")
    assert len(view_of(table).faults) == 1


def test_a_new_update_costs_its_own_files_and_no_other(table: IcebergTable) -> None:
    """It reads the metadata file, its manifest list and its manifests, once each."""
    table.append()
    first = look(table)
    table.commit("overwrite", add=[table.file(content=POSITION_DELETES), table.file()])
    counting = CountingStorage()
    look(table, previous=first, storage=counting)
    assert [name.endswith("-m0.avro") for name in counting.names if name.endswith(".avro")] == [False, True, True]


def test_a_manifest_list_that_is_not_there_is_a_fault(table: IcebergTable) -> None:
    """The table refers to one, and its pointer has not moved since."""
    table.append()
    (gone,) = table.metadata.glob("snap-*.avro")
    gone.unlink()
    assert any(gone.name in fault for fault in view_of(table).faults)


@pytest.mark.parametrize(
    ("named", "remedy"),
    [
        ({"manifests": []}, "commit to the table once with a newer release"),
        ({"manifest-list": "trips/metadata/snap-1.avro"}, "an absolute path"),
        ({"manifest-list": "trips/p=a:b/snap-1.avro"}, "an absolute path"),
        ({"manifest-list": "https://lake/trips/metadata/snap-1.avro"}, "CALL system.rewrite_table_path"),
    ],
)
def test_a_file_that_is_not_damaged_has_its_own_remedy_alone(
    table: IcebergTable, named: dict[str, object], remedy: str
) -> None:
    """A table that is as old as Iceberg, or names its files so that they cannot be found, needs no backup."""
    table.append()
    raw = json.loads(table.metadata_file.read_text())
    del raw["snapshots"][-1]["manifest-list"]
    raw["snapshots"][-1].update(named)
    table.metadata_file.write_text(json.dumps(raw))
    (fault,) = view_of(table).faults
    assert remedy in fault
    assert "backup" not in fault


def test_a_manifest_in_a_codec_that_is_not_known_needs_no_backup(table: IcebergTable) -> None:
    """The fault names the codecs that are known. The manifest may be sound."""
    table.append()
    (manifest,) = table.metadata.glob("*-m0.avro")
    content = manifest.read_bytes()
    assert b"avro.codec\x08null" in content
    manifest.write_bytes(content.replace(b"avro.codec\x08null", b"avro.codec\x08lzma"))
    (fault,) = view_of(table).faults
    assert "'lzma' is unknown to Lakewarden: have it written with one of bzip2" in fault
    assert "backup" not in fault


def by_zstd(table: IcebergTable) -> str:
    """Let the newest metadata file be compressed as iceberg-go does, and return its path."""
    file = table.metadata / "00001-9c12d441-03fe-4693-9a96-a0705ddf69c1.zstd.metadata.json"
    file.write_bytes(pa.compress(table.metadata_file.read_bytes(), codec="zstd", asbytes=True))
    return str(file)


def by_gzip(table: IcebergTable) -> str:
    """Let the table ask for zstd, while its newest file is not compressed by it."""
    table.properties["write.metadata.compression-codec"] = "ZSTD"
    table.save()
    return str(table.metadata_file)


@pytest.mark.parametrize("newest", [by_zstd, by_gzip])
def test_a_table_by_zstd_is_blocked_by_name_where_java_reads_its_metadata_file(
    table: IcebergTable, newest: Callable[[IcebergTable], str]
) -> None:
    """No service can open it. A server of Iceberg's REST protocol reads and writes the file itself."""
    table.append()
    asked = registered(table.folder, *ICEBERG.services)
    rest = TypeAdapter[Any](Catalog).validate_python({"type": "rest", "uri": "http://catalog:8181"})
    pointer = Pointer(token="t", metadata_file=newest(table))
    for catalog, blocked in ((None, True), (rest, False)):
        of = replace(asked, catalog=catalog)
        view = observed(of, LocalStorage(), None, pointer=pointer, token="t", now=table.clock.now()).view
        found = [one for one in view.blockers if "zstd" in one.reason]
        assert bool(found) is blocked
        assert view.faults == ()
        for one in found:
            assert all(one.concerns(service) for service in ICEBERG.services)
            assert "write.metadata.compression-codec=gzip" in (one.remedy or "")


def test_an_update_of_which_something_cannot_be_read_is_asked_again(table: IcebergTable) -> None:
    """An unknown touch is not remembered as none."""
    table.append()
    table.commit("delete", remove=table.live())
    table.rewrite_manifests()
    (entries,) = table.snapshots[list(table.snapshots)[1]].manifests
    whole = entries.path.read_bytes()
    entries.path.unlink()
    seen = look(table)
    assert seen.view.faults
    entries.path.write_bytes(whole)
    assert (look(table, previous=seen).view.writers.updated or {}).keys() == {"p=0"}


def test_corrupt_metadata_names_the_file(table: IcebergTable) -> None:
    """The error belongs to this table, and asks for an operator."""
    table.metadata_file.write_bytes(b"{")
    with pytest.raises(PermanentError, match=table.metadata_file.name):
        look(table)


class Hurried(LocalStorage):
    """Calls a function right before the first file of a kind is read."""

    def __init__(self, table: IcebergTable, part: str, *, times: int = 1) -> None:
        self.table, self.part, self.times = table, part, times

    def read(self, location: str, *, limit: int = 2**26) -> bytes:
        if self.part in location and self.times and limit > 0:
            self.times -= 1
            self.happen(location)
        return super().read(location, limit=limit)

    def happen(self, location: str) -> None:
        """Rewrite the manifests, and expire the old snapshots, so that their files are deleted."""
        before = list(self.table.snapshots)
        old = self.table.metadata_file
        self.table.rewrite_manifests()
        self.table.expire(*before)
        old.unlink()


@pytest.mark.parametrize("part", ["metadata.json", "snap-", "-m0.avro"])
def test_a_commit_that_takes_the_files_away_is_followed_once(table: IcebergTable, part: str) -> None:
    """The pointer names the new place. The table is read again, and no fault is reported."""
    table.append()
    seen = look(table, storage=Hurried(table, part))
    assert seen.view.faults == ()
    assert len(seen.view.timeline.instants) == 1
    assert seen.token == ICEBERG.token(registered(table.folder, Service.COMPACTION), LocalStorage())


def test_a_table_that_is_never_there_when_it_is_read_is_tried_later(table: IcebergTable) -> None:
    """If the second metadata file is gone too, the next poll makes the third attempt."""
    table.append()
    with pytest.raises(TemporaryError, match="not there"):
        look(table, storage=Hurried(table, "metadata.json", times=9))


def plan_beside(table: IcebergTable, *, state: State, whole: bool = True, uuid: str | None = None) -> str:
    """Write the plan of a clean beside the table, as its worker does. Return its instant."""
    at = table.clock.now()
    plan = DeletionPlan(
        instant=f"{round(at.timestamp() * 1000)}-clean-{RUN}",
        run=RUN,
        requested_at=at,
        state=State.INFLIGHT if state is State.COMPLETED else state,
        snapshots=(1,),
        files=3,
        data_files=2,
    )
    beside = PlanBeside(service=Service.CLEAN, table=uuid or table.uuid, pending=plan)
    written = content_of(beside.with_completed(at) if state is State.COMPLETED else beside)
    Path(file_of(Service.CLEAN, str(table.folder))).write_bytes(written if whole else written[:-20])
    return plan.instant


def test_our_plan_beside_the_table_is_its_pending_instant(table: IcebergTable) -> None:
    """It is requested, begun and completed. The token changes with it, and no view is kept while it is pending."""
    table.append()
    asked = registered(table.folder, Service.CLEAN)
    tokens = [ICEBERG.token(asked, LocalStorage())]
    for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
        instant = plan_beside(table, state=state)
        seen = look(table, Service.CLEAN)
        shown = seen.view.timeline.of_run(run=RUN, instant=None)
        assert shown is not None
        assert (shown.time, shown.state, shown.stands_for) == (instant, state, Service.CLEAN)
        assert seen.token not in tokens
        assert (seen.keep_until == table.clock.now()) == (state is not State.COMPLETED)
        tokens.append(seen.token)


def test_a_plan_of_a_table_that_was_dropped_is_none_of_this_one(table: IcebergTable) -> None:
    """The plan names another uuid."""
    plan_beside(table, state=State.INFLIGHT, uuid="another")
    assert view_of(table, Service.CLEAN).timeline.pending(Service.CLEAN) == ()


def test_what_others_keep_in_the_folder_is_a_note_of_orphans(table: IcebergTable) -> None:
    """The last run of the service has written down what it passed over."""
    table.append()
    others = {"raw/orders": "a Hudi table", "checkpoint": "12 files", "": "1 file"}
    beside = PlanBeside(service=Service.ORPHANS, table=table.uuid, others=others)
    Path(file_of(Service.ORPHANS, str(table.folder))).write_bytes(content_of(beside))
    notes = view_of(table, Service.ORPHANS).notes[Service.ORPHANS]
    assert notes[1].endswith("a Hudi table in raw/orders, 12 files in checkpoint, 1 file in the folder itself")


def test_a_plan_that_cannot_be_read_is_a_fault(table: IcebergTable) -> None:
    """The files that it would delete are not guessed."""
    plan_beside(table, state=State.INFLIGHT, whole=False)
    view = view_of(table, Service.CLEAN)
    assert len(view.faults) == 1
    assert "lakewarden-clean" in view.faults[0]
