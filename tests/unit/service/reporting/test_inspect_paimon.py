"""What a person, or a script, is told of a Paimon table."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from lakewarden.planners.model.clock import ManualClock
from lakewarden.service.reporting.inspect import inspect_path
from tests.support.paimon.paimon_table import PaimonTable


@pytest.fixture
def table(tmp_path: Path) -> PaimonTable:
    table = PaimonTable(tmp_path / "wh" / "db.db" / "trips", clock=ManualClock())
    for p in range(3):
        table.append(table.file(p), table.file(p), user="job", identifier=p)
    table.consume("dashboard", 2)
    return table


def inspected(table: PaimonTable, *, as_json: bool) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = inspect_path(table.folder, as_json=as_json, out=out, err=err, clock=table.clock)
    return code, out.getvalue(), err.getvalue()


def test_a_folder_is_recognised_as_a_paimon_table(table: PaimonTable) -> None:
    """Without being registered. Services that Lakewarden does not run are no blockers where none is configured."""
    code, said, err = inspected(table, as_json=True)
    report: Any = json.loads(said)
    assert (code, err) == (0, "")
    assert (report["format"], report["table_type"], report["table_version"]) == (
        "paimon",
        "primary key, fixed buckets",
        3,
    )
    assert report["latest_instant"] == "0000000003"
    assert report["commits_since"]["compaction"] == 3
    assert report["fullest_file_group"] == {"log_files": 2, "log_bytes": 2000}
    assert report["small_files"] == 6
    assert report["readers"] == [{"name": "dashboard", "at": "snapshot 2", "behind": 2, "unreadable": None}]
    assert report["blockers"] == []
    assert "6 files of level 0" in " ".join(report["notes"]["compaction"])


def test_a_person_reads_sentences(table: PaimonTable) -> None:
    """What waits, what holds snapshots, and what holds the compaction back."""
    table.alter(write_only="false")
    _, said, _ = inspected(table, as_json=False)
    text = " ".join(said.split())
    for part in (
        "a full compaction would rewrite 6 files of 3 buckets",
        "the streaming job with the commit user job committed 2 last, in snapshot 3",
        "dashboard snapshot 2, 2 commits behind",
        "write-only is false: the writers compact the table themselves",
    ):
        assert part in text
    assert "a clustering of Paimon overwrites" not in text


def test_what_cannot_be_read_is_said(table: PaimonTable) -> None:
    """By the name of the file, with the exit code 2."""
    table.snapshot_file(1).write_text("{")
    code, _, err = inspected(table, as_json=False)
    assert code == 2
    assert "snapshot-1 is no snapshot of a Paimon table" in err
