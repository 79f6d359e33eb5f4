"""What is gathered is what lies there: from real timelines, from a store's rows, from what executors told."""

from __future__ import annotations

import json
import math
import sqlite3
import zipfile
from pathlib import Path
from typing import Any

import pytest

from faults.evidence import files_there, pending_on, read_intervals, read_runs, read_timeline, referenced

FIXTURES = Path(__file__).parents[2] / "fixtures" / "hudi"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a real table of version 9: its metadata, without any data file."""
    with zipfile.ZipFile(FIXTURES / "mor_v9.zip") as archive:
        archive.extractall(tmp_path / "table")
    return tmp_path / "table"


def test_completed_instants_are_told_with_what_they_did(table: Path) -> None:
    """Of a merge-on-read table: compactions, a clustering and a clean, and what is pending."""
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
    """All of them lie in the partitions, and none does in this fixture."""
    _, metadata = read_timeline(table)
    needed = referenced(metadata)
    assert needed
    assert all(path.startswith(("p0/", "p1/", "p2/")) for files in needed.values() for path in files)
    assert files_there(table) == set()
    earliest = next(m["earliestCommitToRetain"] for name, m in metadata.items() if name.endswith(".clean"))
    assert min(needed) >= earliest


def told(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def step(what: str, at: float, *, pid: int = 10, run: str = "r1") -> dict[str, Any]:
    facts = {"run": run, "epoch": 1, "table": "orders", "service": "clean", "instant": "5", "step": "commit"}
    return {"what": what, "at": at, "pid": pid, **facts}


def test_a_step_lasts_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    """As its worker told it."""
    [interval] = read_intervals(told(tmp_path / "witness", step("begin", 1.0), step("end", 2.5)))
    assert (interval.run, interval.instant, interval.begun, interval.until) == ("r1", "5", 1.0, 2.5)


def test_a_step_that_was_cut_off_lasts_until_its_jvm_was_last_seen_alive(tmp_path: Path) -> None:
    """Its own JVM, not another one."""
    lines = [
        {"what": "session", "at": 0.5, "pid": 10, "jvm": 11},
        {"what": "session", "at": 0.6, "pid": 20, "jvm": 21},
        step("begin", 1.0),
        {"what": "dead", "at": 2.6, "pid": 1, "jvm": 21, "alive_at": 2.5},
        {"what": "dead", "at": 4.1, "pid": 1, "jvm": 11, "alive_at": 4.0},
    ]
    [interval] = read_intervals(told(tmp_path / "witness", *lines))
    assert interval.until == 4.0


def test_a_step_whose_jvm_was_never_seen_dead_has_no_end(tmp_path: Path) -> None:
    """Nothing is guessed in favour of whoever is on trial."""
    [interval] = read_intervals(told(tmp_path / "witness", step("begin", 1.0)))
    assert interval.until == math.inf


def test_the_same_worker_may_begin_the_same_step_of_another_run(tmp_path: Path) -> None:
    """Slots run side by side in one worker."""
    lines = [step("begin", 1, run="r1"), step("begin", 2, run="r2"), step("end", 3, run="r1"), step("end", 4, run="r2")]
    intervals = read_intervals(told(tmp_path / "witness", *lines))
    assert [(i.run, i.begun, i.until) for i in intervals] == [("r1", 1, 3), ("r2", 2, 4)]


def test_the_rows_of_a_store_are_read_in_the_order_of_their_requests(tmp_path: Path) -> None:
    """From the database itself, without the code that wrote it."""
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE runs (id, number, identity, service, state, instant, epoch, ended_at)")
        db.execute("INSERT INTO runs VALUES ('r2', 2, 't1', 'clean', 'RUNNING', NULL, 4, NULL)")
        db.execute("INSERT INTO runs VALUES ('r1', 1, 't1', 'clean', 'SUCCEEDED', '5', 3, '2026-01-01')")
    db.close()
    first, second = read_runs(tmp_path / "db")
    assert (first.id, first.state, first.instant, first.epoch, first.ended) == ("r1", "SUCCEEDED", "5", 3, True)
    assert (second.id, second.ended) == ("r2", False)
