"""The gathered evidence equals the content of a store's rows, and of the executors' records."""

from __future__ import annotations

import json
import math
import sqlite3
from pathlib import Path
from typing import Any

from faults.checking.evidence import read_intervals, read_runs


def told(file: Path, *lines: dict[str, Any]) -> Path:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def step(what: str, at: float, *, pid: int = 10, run: str = "r1") -> dict[str, Any]:
    facts = {"run": run, "epoch": 1, "table": "orders", "service": "clean", "instant": "5", "step": "commit"}
    return {"what": what, "at": at, "pid": pid, **facts}


def test_a_step_lasts_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    """Its worker recorded both times."""
    [interval] = read_intervals(told(tmp_path / "witness", step("begin", 1.0), step("end", 2.5)))
    assert (interval.run, interval.instant, interval.begun, interval.until) == ("r1", "5", 1.0, 2.5)


def test_a_step_that_was_cut_off_lasts_until_its_jvm_was_last_seen_alive(tmp_path: Path) -> None:
    """The death of another JVM does not count."""
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
    """Nothing is guessed in favour of the code under test."""
    [interval] = read_intervals(told(tmp_path / "witness", step("begin", 1.0)))
    assert interval.until == math.inf


def test_the_same_worker_may_begin_the_same_step_of_another_run(tmp_path: Path) -> None:
    """The runs are in different slots of one worker."""
    lines = [step("begin", 1, run="r1"), step("begin", 2, run="r2"), step("end", 3, run="r1"), step("end", 4, run="r2")]
    intervals = read_intervals(told(tmp_path / "witness", *lines))
    assert [(i.run, i.begun, i.until) for i in intervals] == [("r1", 1, 3), ("r2", 2, 4)]


def test_the_rows_of_a_store_are_read_in_the_order_of_their_requests(tmp_path: Path) -> None:
    """The test reads the database itself, without the code that wrote it."""
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("CREATE TABLE runs (id, number, identity, service, state, instant, epoch, ended_at, outcome)")
        db.execute("INSERT INTO runs VALUES ('r2', 2, 't1', 'clean', 'RUNNING', NULL, 4, NULL, NULL)")
        db.execute(
            "INSERT INTO runs VALUES ('r1', 1, 't1', 'clean', 'SUCCEEDED', '5', 3, '2026-01-01', 'nothing to do: none')"
        )
    db.close()
    first, second = read_runs(tmp_path / "db")
    assert (first.id, first.state, first.instant, first.epoch, first.ended) == ("r1", "SUCCEEDED", "5", 3, True)
    assert (second.id, second.ended) == ("r2", False)
    assert (first.idle, second.idle) == (True, False)
