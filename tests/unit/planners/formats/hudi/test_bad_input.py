"""Any content of a table's folder leads to a clear reason."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import fsspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.format import THOROUGH
from lakewarden.planners.formats.hudi.metadata.properties import read_table_properties
from lakewarden.planners.model.errors import LakewardenError, PermanentError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.view import TableView
from lakewarden.planners.storage import LocalStorage, storage_for
from tests.support.hudi.hudi_look import look, made, registered, seen
from tests.support.hudi.hudi_table import HudiTable, base_file, log_file

TIMES = st.sampled_from(
    ["20260101000001000", "20260101000002000", "00000000000000001", "99999999999999999", "99991231235959999",
     "00010101000000000", "20261301000000000", "20260101000001", "20260101000001000001"]
)  # fmt: skip
ENDINGS = st.sampled_from(
    [f".{action}{state}" for state in ("", ".requested", ".inflight")
     for action in ("commit", "deltacommit", "replacecommit", "compaction", "clustering", "clean", "rollback",
                    "savepoint", "restore", "indexing", "nonsense")]
)  # fmt: skip
NAMES = st.builds(
    lambda time, completed, ending: f"{time}{completed}{ending}",
    TIMES,
    st.one_of(st.just(""), TIMES.map(lambda time: f"_{time}")),
    ENDINGS,
)
ODD = {
    f"{time}{completed}.{action}": content
    for completed in ("", "_20260101000003000")
    for time, action, content in (
        ("20260101000000500", "deltacommit", b"{}"),
        ("20260101000001000", "clean", b'{"lastCompletedCommitTimestamp": 5}'),
        ("20260101000002000", "rollback", b'{"instantsRollback": [{"commitTime": null, "action": "deltacommit"}]}'),
    )
}
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda some: b"Obj\x01" + some),
    st.sampled_from(
        [b"{}", b"[]", b"7", b"null", b'{"partitionToWriteStats": {"p0": [{"path": "p0/a.parquet"}]}}',
         b'{"partitionToWriteStats": {"p0": {"path": 1}}}', b'{"partitionToWriteStats": {"p0": [{"path": 7}]}}',
         b'{"partitionToReplaceFileIds": {"p0": 3}}', b'{"partitionToWriteStats": {"p0": ["x"]}}',
         b'{"instantToRollback": {}}', b'{"instantsRollback": 1}', b'{"extraMetadata": []}',
         b'{"operations": [{}]}', b'{"clusteringPlan": {"inputGroups": [1]}}', b'{"lastCompletedCommitTimestamp": 5}']
    ),
)  # fmt: skip


@pytest.mark.parametrize("version", [6, 9])
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(files=ODD)
@given(files=st.dictionaries(NAMES, CONTENTS, max_size=8))
def test_no_file_on_a_timeline_raises_more_than_we_know(tmp_path: Path, version: int, files: dict[str, bytes]) -> None:
    """Names that are garbage are no instants. Contents that are garbage are faults that name their file."""
    shutil.rmtree(tmp_path / "trips", ignore_errors=True)
    table = made(tmp_path, version=version, zone=ZoneInfo("America/Los_Angeles"))
    for name, content in files.items():
        (table.timeline / name).write_bytes(content)
    view = seen(table)
    assert all(any(name in fault for name in files) or "the file of its plan is gone" in fault for fault in view.faults)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda text: f"hoodie.{text}".encode())))
def test_no_properties_raise_more_than_we_know(tmp_path: Path, content: bytes) -> None:
    """There is a table that can be read, or an error with the reason."""
    shutil.rmtree(tmp_path / "trips", ignore_errors=True)
    table = made(tmp_path)
    (table.home / "hoodie.properties").write_bytes(content)
    with pytest.raises(LakewardenError):
        seen(table)


@pytest.mark.parametrize("version", [8, 9])
def test_a_lost_timeline_is_a_fault_and_an_empty_one_is_new(tmp_path: Path, version: int) -> None:
    """A table must not look new because its timeline is gone. Then nothing would be known to be needed."""
    table = made(tmp_path, version=version)
    assert seen(table).faults == ()
    table.write({"p0": []})
    shutil.rmtree(table.timeline)
    assert seen(table).faults == (f"the timeline's folder {table.timeline} is missing",)
    assert look(table).keep_until == table.clock.now()


def test_a_timeline_that_a_store_without_folders_does_not_show_is_new(tmp_path: Path) -> None:
    """Object stores know no empty folders."""
    table = made(tmp_path)
    memory = fsspec.filesystem("memory")
    memory.pipe("memory://lake/trips/.hoodie/hoodie.properties", (table.home / "hoodie.properties").read_bytes())
    location = "memory://lake/trips"
    elsewhere = dataclasses.replace(registered(table), location=location)
    view = HUDI.observe(elsewhere, storage_for(location), None, now=table.clock.now()).view
    assert (view.faults, view.timeline.instants) == ((), ())


def test_a_table_that_was_deleted_and_made_again_is_another_and_nothing_of_the_old_one_is_remembered(
    tmp_path: Path,
) -> None:
    """This also holds if an observation of the old table is passed on."""
    old = made(tmp_path)
    old.write({"p0": [log_file("a", "1")]})
    before = look(old)
    shutil.rmtree(old.folder)
    new = HudiTable(old.folder, version=9, clock=old.clock, zone=old.zone)
    new.write({"p1": [base_file("b", "1")]})
    assert look(new, previous=before).view == look(new).view
    assert look(new).view.identity != before.view.identity


def test_a_plan_that_names_missing_files_is_seen_as_any_other(tmp_path: Path) -> None:
    """Observing opens no data files. The executor of the plan finds out."""
    table = made(tmp_path)
    table.write({"p0": []})
    table.plan_compaction(files={"p0": ("gone-0_0-1-2_20260101000000000.parquet", ".gone-0_1.log.1_0-1-2")})
    view: TableView = seen(table)
    assert (view.faults, len(view.timeline.pending(Service.COMPACTION))) == ((), 1)


def test_what_left_the_timeline_is_past_and_what_is_to_come_is_not(tmp_path: Path) -> None:
    """An instant that is older than everything active was archived or rolled back. It is not pending."""
    table = made(tmp_path)
    empty = seen(table).timeline
    first, second = table.write({}), table.write({})
    whole = seen(table).timeline
    for name in table.timeline.glob(f"{first}*"):
        table.remove(name.name)
    rest = seen(table).timeline
    assert [timeline.is_past(first) for timeline in (empty, whole, rest)] == [False, False, True]
    assert not rest.is_past(second)
    assert not rest.is_past(table.next_time())


# Crafted metadata of a Hudi table: a fault of its file, or an error that names the key.


def with_property(table: HudiTable, key: str, value: str) -> None:
    with (table.home / "hoodie.properties").open("a") as file:
        file.write(f"{key}={value}\n")


@pytest.mark.parametrize(
    "path",
    ["../../../../etc", "/etc", "a/../../..", "..", ".", "a//b", "./timeline", "timeline/", "a\\u0000b", "file:/etc",
     "s3://b/t", "%2e%2e", "a\\\\b", "a/" * 20 + "a", "n" * 300],
)  # fmt: skip
def test_a_timeline_lies_inside_its_table(tmp_path: Path, path: str) -> None:
    """Another place belongs to others. A folder without instants would look like an empty table without problems."""
    table = made(tmp_path)
    with_property(table, "hoodie.timeline.path", path)
    with pytest.raises(PermanentError, match=r"hoodie\.timeline\.path of .* names no folder inside \.hoodie"):
        look(table)


@pytest.mark.parametrize("path", ["timeline", "elsewhere", "a/b.c/D-1_2"])
def test_a_timeline_may_be_any_folder_inside(tmp_path: Path, path: str) -> None:
    """The setting exists for this."""
    table = made(tmp_path)
    with_property(table, "hoodie.timeline.path", path)
    assert read_table_properties(str(table.folder), LocalStorage()).timeline_folder == f"{table.home}/{path}"


@pytest.mark.parametrize("part", ["", "timeline", "metadata"])
def test_a_link_does_not_lead_a_timeline_out_of_its_table(tmp_path: Path, part: str) -> None:
    """The link may be the timeline itself or the folder that holds it."""
    table = made(tmp_path)
    inside = table.home / part
    inside.mkdir(exist_ok=True)
    shutil.move(inside, tmp_path / "outside")
    inside.symlink_to(tmp_path / "outside")
    with pytest.raises(PermanentError, match=r"is a link to .*outside.*, which lies outside the table"):
        look(table)


def test_a_link_inside_a_table_may_lead_where_it_wants(tmp_path: Path) -> None:
    """It belongs to the table."""
    table = made(tmp_path)
    table.timeline.rename(table.home / "moved")
    table.timeline.symlink_to(table.home / "moved")
    assert look(table).view.faults == ()


@pytest.mark.parametrize(
    "size", [10**400, 2**63, -1, -(10**70), 1e400, 1.0e300, "many", [1], {"a": 1}, True], ids=lambda size: str(size)[:9]
)
def test_a_size_that_is_none_is_a_fault_of_its_commit(tmp_path: Path, size: Any) -> None:
    """It would reach the metrics, and end the answer for all tables."""
    table = made(tmp_path)
    stat = {"fileId": "a", "path": "p0/a-0_0-1-2_20260101000000000.parquet", "fileSizeInBytes": size}
    time = table.begin_write()
    table.commit_write(time, content=json.dumps({"partitionToWriteStats": {"p0": [stat]}}).encode())
    view = look(table, format_=THOROUGH).view
    assert len(view.faults) == 1
    assert time in view.faults[0]
    assert len(view.faults[0]) < 300


def test_properties_that_are_far_too_large_are_not_read(tmp_path: Path) -> None:
    """The error names the file and its limit."""
    table = made(tmp_path)
    (table.home / "hoodie.properties").write_bytes(b"a=b\\\n" * 2**20)
    with pytest.raises(PermanentError, match=r"hoodie\.properties is larger than 1048576 bytes"):
        look(table)


@pytest.mark.parametrize("version", ["9" * 400, "9" * 5000, "²", "-1", "\\u001b[2J"])
def test_a_version_that_is_no_number_is_unknown(tmp_path: Path, version: str) -> None:
    """The same holds for text that Python takes for a digit, or refuses to convert."""
    table = made(tmp_path)
    with_property(table, "hoodie.table.version", version)
    view = look(table).view
    assert any("is unknown to Lakewarden" in one.reason and len(one.reason) < 100 for one in view.blockers)
