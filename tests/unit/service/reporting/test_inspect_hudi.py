"""`lakewarden inspect` shows a table's state and never a stack trace."""

from __future__ import annotations

import io
import json
from datetime import UTC
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.reporting.inspect import inspect_path
from tests.support.hudi.hudi_table import HudiTable, base_file, log_file


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    """Return a table with an instant of every kind."""
    made = HudiTable(tmp_path / "trips", version=9, clock=ManualClock(), zone=UTC)
    for _ in range(3):
        made.commit_write(made.begin_write())
    made.plan_compaction(files={"p0": ("a.parquet", ".a.log.1"), "p1": ("b.parquet", ".b.log.1")})
    made.plan_clean(files={"p0": ("c-0_0-1-2_20260101000000000.parquet",)})
    made.begin_write()
    return made


def inspected(path: object, *, as_json: bool = False) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = inspect_path(str(path), as_json=as_json, out=out, err=err)
    return code, out.getvalue(), err.getvalue()


def report(table: HudiTable) -> Any:
    return json.loads(inspected(table.folder, as_json=True)[1])


def test_the_picture_is_an_svg_that_stands_alone(table: HudiTable) -> None:
    """It has its style in itself, and what it shows in words."""
    out = io.StringIO()
    assert inspect_path(str(table.folder), as_json=False, as_svg=True, out=out, err=io.StringIO()) == 0

    picture = ET.fromstring(out.getvalue())
    assert picture.attrib["aria-label"].endswith(": 4 writes, 1 compaction, 1 clean")
    assert picture.find("{http://www.w3.org/2000/svg}style") is not None


def test_the_json_has_exactly_the_promised_keys(table: HudiTable) -> None:
    """Scripts depend on them."""
    said = report(table)
    assert list(said) == [
        "format", "table_name", "table_type", "table_version", "latest_instant", "instants", "pending", "commits_since",
        "fullest_file_group", "small_files", "writer_failures", "inner_tables", "blockers", "warnings",
        "readers", "notes",
    ]  # fmt: skip
    assert {tuple(i) for i in said["instants"]} == {("time", "action", "state", "completed_at")}
    assert list(said["pending"]) == ["compaction", "log_compaction", "clustering", "clean"]
    assert {tuple(p) for p in said["pending"].values()} == {("count", "first", "instants", "file_groups", "bytes")}
    assert said["commits_since"] == {"compaction": 3, "clustering": 3, "clean": 3}
    assert said["fullest_file_group"] == {"log_files": 0, "log_bytes": 0}
    assert (said["small_files"], said["inner_tables"]) == (0, [])
    assert {tuple(f) for f in said["writer_failures"]} == {("instant", "at", "reason")}


def test_the_json_says_what_is_pending_and_how_much_it_is(table: HudiTable) -> None:
    """A clean plan has no bytes. An instant that is not pending asks for nothing."""
    said = report(table)
    times = [i["time"] for i in said["instants"]]
    assert said["latest_instant"] == times[-1] == max(times)
    assert said["pending"]["compaction"] == {
        "count": 1, "first": times[3], "instants": [times[3]], "file_groups": 2, "bytes": 200,
    }  # fmt: skip
    assert (said["pending"]["clean"]["file_groups"], said["pending"]["clean"]["bytes"]) == (1, None)
    assert said["pending"]["clustering"] == {
        "count": 0, "first": None, "instants": [], "file_groups": 0, "bytes": 0,
    }  # fmt: skip
    assert said["instants"][-1] == {
        "time": times[-1], "action": "deltacommit", "state": "INFLIGHT", "completed_at": None,
    }  # fmt: skip


def test_a_person_reads_name_type_and_what_waits(table: HudiTable) -> None:
    """They are the same facts, in words."""
    code, out, err = inspected(table.folder)
    assert (code, err) == (0, "")
    for word in ("trips", "MERGE_ON_READ", "table version 9", "compaction", "writes in flight", "lock:"):
        assert word in out


def test_log_files_failed_writes_and_the_metadata_table_are_shown(tmp_path: Path) -> None:
    """They are in the JSON and in the text, with or without policies."""
    table = HudiTable(
        tmp_path / "trips", version=9, clock=ManualClock(), zone=UTC,
        properties={"hoodie.table.metadata.partitions": "files"},
    )  # fmt: skip
    kept = table.home / "metadata/.hoodie/timeline"
    kept.mkdir(parents=True)
    table.write({"p0": [log_file("a", "1", size=2048), base_file("b", "1")]})
    write = table.begin_write()
    (kept / f"{write}_{write}.deltacommit").touch()
    failed = table.begin_write()
    rollback = table.roll_back(failed)
    said = report(table)
    assert said["fullest_file_group"] == {"log_files": 1, "log_bytes": 2048}
    assert said["small_files"] == 1
    assert {f["instant"]: f["reason"] for f in said["writer_failures"]}[failed] == f"rolled back by {rollback}"
    assert said["inner_tables"] == [{
        "name": "metadata table", "commits_since_compaction": 1, "compacted_at": None,
        "pinned_by": f"deltacommit {write}",
    }]  # fmt: skip
    text = " ".join(inspected(table.folder)[1].split())
    for words in ("1 log files, 2.0 KiB", f"{failed} rolled back by {rollback}", f"prevented by deltacommit {write}"):
        assert words in text


def test_a_half_written_plan_is_named_and_the_rest_is_printed(table: HudiTable) -> None:
    """What is known is on stdout, one line on stderr, and the exit code is 2."""
    (plan,) = table.timeline.glob("*.compaction.requested")
    plan.write_bytes(plan.read_bytes()[:-30])
    code, out, err = inspected(table.folder, as_json=True)
    pending = json.loads(out)["pending"]["compaction"]
    assert (code, err.count("\n")) == (2, 1)
    assert plan.name in err
    assert (pending["count"], pending["file_groups"], pending["bytes"]) == (1, None, None)
    assert inspected(table.folder)[0] == 2


@pytest.mark.parametrize("place", ["missing", "empty", "file", "bare", "s3://", "s3:/x", "a?b"])
@pytest.mark.parametrize("as_json", [True, False])
def test_what_is_no_hudi_table_is_said_in_one_line(tmp_path: Path, place: str, as_json: bool) -> None:
    """Nothing is on stdout and one line on stderr. The exit code is 2, and there is no stack trace."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare/.hoodie").mkdir(parents=True)
    (tmp_path / "file").write_text("x")
    code, out, err = inspected(place if ":" in place else tmp_path / place, as_json=as_json)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("lakewarden inspect: ")


def test_a_table_may_be_named_by_its_uri_or_from_here(table: HudiTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both names are in use by people and programs."""
    monkeypatch.chdir(table.folder.parent)
    assert inspected("trips")[0] == inspected(f"file://{table.folder}/")[0] == 0


def test_policies_that_are_not_set_are_not_to_be_removed(tmp_path: Path) -> None:
    """A table that is inspected without a configuration has no policy, and a copy-on-write table has nothing to
    compact.
    """
    table = HudiTable(tmp_path / "trips", version=9, clock=ManualClock(), zone=UTC, kind="COPY_ON_WRITE")
    table.commit_write(table.begin_write("commit"))
    said = inspected(table.folder)[1]
    assert "COPY_ON_WRITE" in said
    assert "policy" not in said
    assert all("copy-on-write" not in held["reason"] for held in report(table)["blockers"])


def test_a_service_that_no_configuration_asks_for_is_no_blocker(tmp_path: Path) -> None:
    """Tables below version 8 refuse `metadata_rebuild`. An inspection without a configuration says nothing of it."""
    table = HudiTable(tmp_path / "trips", version=6, clock=ManualClock(), zone=UTC)
    table.commit_write(table.begin_write("deltacommit"))
    assert report(table)["table_version"] == 6
    assert all("metadata_rebuild" not in one["services"] for one in report(table)["blockers"])
    assert "delete_metadata_table" not in inspected(table.folder)[1]
