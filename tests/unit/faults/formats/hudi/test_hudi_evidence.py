"""The gathered evidence equals the content of real timelines."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from faults.formats.hudi.evidence import files_there, pending_on, read_timeline, referenced

FIXTURES = Path(__file__).parents[4] / "fixtures" / "hudi"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a real table of version 9: its metadata, without any data file."""
    with zipfile.ZipFile(FIXTURES / "mor_v9.zip") as archive:
        archive.extractall(tmp_path / "table")
    return tmp_path / "table"


def test_completed_instants_are_told_with_what_they_did(table: Path) -> None:
    """The table is merge-on-read. It has compactions, a clustering and a clean, and pending instants."""
    timeline, _ = read_timeline(table)
    by_service = {
        name: sorted(i for i, what in timeline.completed.items() if what == name)
        for name in ("compaction", "clustering", "clean", "UPSERT")
    }
    truth = json.loads((FIXTURES / "mor_v9.json").read_text())["instants"]
    of = {
        action: sorted(i["time"] for i in truth if i["action"] == action and i["state"] == "COMPLETED")
        for action in ("commit", "replacecommit", "clean", "deltacommit")
    }
    assert by_service == {
        "compaction": of["commit"],
        "clustering": of["replacecommit"],
        "clean": of["clean"],
        "UPSERT": of["deltacommit"],
    }
    pending = {f"{i['time']}.{i['action']}" for i in truth if i["state"] != "COMPLETED"}
    assert set(timeline.pending) == pending
    assert {f"{instant}.{action}" for instant, action in pending_on(table)} == pending


def test_the_files_of_every_retained_commit_are_needed(table: Path) -> None:
    """All of them lie in the partitions. This fixture contains none of them."""
    _, metadata = read_timeline(table)
    needed = referenced(metadata)
    assert needed
    assert all(path.startswith(("p0/", "p1/", "p2/")) for files in needed.values() for path in files)
    assert files_there(table) == set()
    earliest = next(m["earliestCommitToRetain"] for name, m in metadata.items() if name.endswith(".clean"))
    assert min(needed) >= earliest
