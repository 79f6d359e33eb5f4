"""`lakewarden explain PATH` says what a daemon would run on a table, without one, and changes nothing."""

from __future__ import annotations

import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from lakewarden.cli import main
from lakewarden.cli.exit_codes import Code
from lakewarden.planners.model.clock import ManualClock
from tests.support.hudi.hudi_table import HudiTable
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> HudiTable:
    """Return a table with commits, a plan and a write in flight."""
    made = HudiTable(tmp_path / "trips", version=9, clock=ManualClock(), zone=UTC)
    for _ in range(3):
        made.commit_write(made.begin_write())
    made.plan_compaction(files={"p0": ("a.parquet", ".a.log.1"), "p1": ("b.parquet", ".b.log.1")})
    made.begin_write()
    return made


def explained(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    code = main(["explain", *words, "--json"])
    answer = json.loads(capsys.readouterr().out)
    return code, answer


def test_it_has_the_keys_of_the_explanation_of_a_daemon(table: HudiTable, capsys: pytest.CaptureFixture[str]) -> None:
    """Each service has a decision with its code. It is blocked as that of a daemon is."""
    code, answer = explained(capsys, str(table.folder))
    assert code == Code.DONE
    assert (answer["format"], answer["mode"], answer["kind"]) == ("hudi", "plan", "MERGE_ON_READ")
    assert list(answer["services"]) == ["compaction", "clustering", "clean", "archive", "rollback"]
    decisions = {name: one["decision"]["code"] for name, one in answer["services"].items()}
    assert decisions["clean"] == "lock_missing"
    assert decisions["archive"] == "lock_missing"
    assert [one["file_groups"] for one in answer["services"]["compaction"]["pending"]] == [2]


def test_a_person_reads_what_would_run_and_why(
    table: HudiTable, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The location may be a path from here."""
    monkeypatch.chdir(table.folder.parent)
    assert main(["explain", "./trips"]) == Code.DONE
    text = capsys.readouterr().out
    for words in ("now, without a daemon", "no lock is configured", "write in flight", "due when"):
        assert words in text


def test_a_half_written_plan_is_named_and_the_rest_is_printed(
    table: HudiTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2."""
    (plan,) = table.timeline.glob("*.compaction.requested")
    plan.write_bytes(plan.read_bytes()[:-30])
    code, answer = explained(capsys, str(table.folder))
    assert code == Code.USAGE
    assert plan.name in answer["faults"][0]
    assert answer["services"]["compaction"]["decision"]["code"] == "metadata_damaged"


@pytest.mark.parametrize("place", ["missing", "empty", "file", "s3://", "a?/b"])
def test_what_is_no_table_is_said_in_one_line(tmp_path: Path, place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is on stdout and one line on stderr. The exit code is 2, and there is no stack trace."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    code = main(["explain", place if "/" in place else str(tmp_path / place)])
    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (Code.USAGE, "", 1)
    assert place != "missing" or printed.err == f"nothing found at {tmp_path}/missing\n"


def test_the_past_is_known_to_a_daemon_alone(table: HudiTable, capsys: pytest.CaptureFixture[str]) -> None:
    """`--at` with a path is a wrong argument."""
    assert main(["explain", str(table.folder), "--at", "2026-11-23T12:00:00Z"]) == Code.USAGE
    assert "only a daemon keeps the history" in capsys.readouterr().err


def test_a_paimon_table_is_recognised_and_its_readers_hold_snapshots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Services that Lakewarden does not run are no blockers where none is configured."""
    table = PaimonTable(tmp_path / "wh" / "db.db" / "trips", clock=ManualClock())
    for p in range(3):
        table.append(table.file(p), table.file(p), user="job", identifier=p)
    code, answer = explained(capsys, str(table.folder))
    assert (code, answer["format"], answer["blockers"]) == (Code.DONE, "paimon", [])
    assert answer["services"]["compaction"]["backlog"]["small_files"] == 6


def test_no_folder_is_taken_for_a_directory_without_the_word(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every folder of files would be one, that of a damaged table too. The message has the word."""
    part = tmp_path / "trips" / "dt=2026-03-01" / "part-1"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"rows")
    assert main(["explain", str(tmp_path / "trips")]) == Code.USAGE
    assert "--format directory" in capsys.readouterr().err
    code, answer = explained(capsys, str(tmp_path / "trips"), "--format", "directory")
    assert (code, answer["format"]) == (Code.DONE, "directory")
    assert main(["explain", str(tmp_path / "trips"), "--format", "directories"]) == Code.USAGE
    assert "is not a format: use one of hudi, iceberg" in capsys.readouterr().err


def test_a_table_of_a_catalog_is_explained_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The configuration has the catalog. The folder of such a table is no table: only its catalog knows its newest
    version.
    """
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("sales")
    rows = pa.table({"id": [1, 2, 3]})
    orders = catalog.create_table("sales.orders", rows.schema)
    for _ in range(6):
        orders.append(rows)
    settings = f"{{format: iceberg, type: jdbc, uri: 'jdbc:sqlite:{tmp_path}/catalog.db', warehouse: {tmp_path}}}"
    config = tmp_path / "lakewarden.yaml"
    config.write_text(f"catalogs: {{lake: {settings}}}")
    code, answer = explained(capsys, "catalog://lake/sales.orders", "--config", str(config))
    assert (code, answer["format"]) == (Code.DONE, "iceberg")
    assert answer["services"]["compaction"]["backlog"]["small_files"] == 6
    assert answer["services"]["compaction"]["decision"]["decision"] == "WouldRun"

    assert main(["explain", "catalog://lake/sales.orders"]) == Code.USAGE
    assert "name a configuration that has it, with --config" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "catalog://lake/sales.orders"]) == Code.DONE, "lakewarden.yaml of this folder has it"
    capsys.readouterr()
    assert main(["explain", f"{tmp_path}/warehouse/sales/orders"]) == Code.USAGE
    assert "a catalog knows its newest version" in capsys.readouterr().err
