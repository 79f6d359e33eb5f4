"""Gathers a history: the folder of the table, the writers' records, the store's rows and what the executors told.

Metadata is read here with fastavro and pyarrow, rows with hudi-rs: nothing of Lakewarden, which is on trial.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet
from hudi import HudiReadOptions, HudiTable

from faults.history import History, Interval, StoredRun, TimelineFound
from lakewarden.demo.formats.hudi.reader import read_snapshot
from lakewarden.demo.writers.record import merged, read_record
from live.hudi.travel import travel

_TIMELINE = Path(".hoodie") / "timeline"
_COMPLETED = re.compile(r"(?P<instant>\d+)_(?P<completed>\d+)\.(?P<action>[a-z]+)")
_PENDING = re.compile(r"(?P<instant>\d+)\.(?P<action>[a-z]+)\.(?:requested|inflight)")
_COMMITS = frozenset({"commit", "deltacommit", "replacecommit"})
_GIVEN_UP = "lakewarden.given_up"
"""Says of a completed instant that it has no files: its plan was not carried out, and no run succeeded on it."""
_SERVICES = {"COMPACT": "compaction", "LOG_COMPACT": "log_compaction", "CLUSTER": "clustering"}
_RUNS = "SELECT id, identity, service, state, instant, epoch, ended_at IS NOT NULL FROM runs ORDER BY number"


def gather(*, table: Path, records: Mapping[str, Path], runs: Sequence[StoredRun], witness: Path) -> History:
    """Return the history of a table whose writers and daemon have ended; `records` are by the writers' signatures.
    Raises what an unreadable table raises.
    """
    by_writer = {writer: read_record(record) for writer, record in records.items()}
    written = merged(by_writer.values())
    timeline, metadata = read_timeline(table)
    return History(
        expected=written.expected_rows(),
        found=read_snapshot(table).rows,
        needed=files_needed(table, metadata),
        files=files_there(table),
        timeline=timeline,
        intervals=read_intervals(witness),
        runs=runs,
        journeys=travel(table, by_writer),
        failures=written.failures(),
    )


def read_runs(database: Path) -> list[StoredRun]:
    """Return the runs of an SQLite store whose daemon has ended. Raises sqlite3.Error."""
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return [stored_run(row) for row in connection.execute(_RUNS)]


def read_shared_runs(url: str) -> list[StoredRun]:
    """Return the runs of a PostgreSQL store. Raises psycopg.Error."""
    import psycopg  # noqa: PLC0415 - its driver is an extra

    with psycopg.connect(url) as connection:
        return [stored_run(row) for row in connection.execute(_RUNS)]


def stored_run(row: Sequence[Any]) -> StoredRun:
    """Return a row of `runs`."""
    run, identity, service, state, instant, epoch, ended = row
    return StoredRun(
        id=run, identity=identity, service=service, state=state, instant=instant, epoch=epoch, ended=bool(ended)
    )


# -- the timeline


def read_timeline(table: Path) -> tuple[TimelineFound, Mapping[str, Mapping[str, Any]]]:
    """Return the timeline, and the metadata of each completed instant by the name of its file."""
    names = [path.name for path in (table / _TIMELINE).iterdir()]
    metadata = {name: _record(table / _TIMELINE / name) for name in names if _COMPLETED.fullmatch(name)}
    # a savepoint has the instant of the commit that it holds
    completed = {_instant(name): _what(name, m) for name, m in metadata.items() if _action(name) != "savepoint"}
    pending = {f"{instant}.{action}" for instant, action in pending_on(table)}
    return TimelineFound(completed=completed, pending=pending, archived=_archived(table)), metadata


def pending_on(table: Path) -> set[tuple[str, str]]:
    """Return the pending instants of a table, each with its action; none where there is no table yet."""
    try:
        names = [path.name for path in (table / _TIMELINE).iterdir()]
    except FileNotFoundError:
        return set()
    completed = {_instant(name) for name in names if _COMPLETED.fullmatch(name)}
    found = (_PENDING.fullmatch(name) for name in names)
    return {(m["instant"], m["action"]) for m in found if m is not None and m["instant"] not in completed}


def files_needed(table: Path, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the files that each retained instant refers to: those that its commit says it wrote, and those of the
    file slices that a query as of it reads.
    """
    hudi = HudiTable(str(table))
    needed = referenced(metadata)
    for instant, files in needed.items():
        for part in hudi.get_file_slices(HudiReadOptions().with_as_of_timestamp(instant)):
            files.update(_files_of(part))
    return needed


def referenced(metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the files that each retained commit says it wrote. Retained is what no completed clean has given up."""
    cleans = [content["earliestCommitToRetain"] or "" for name, content in metadata.items() if name.endswith(".clean")]
    earliest = max(cleans, default="")
    return {
        _instant(name): {stat["path"] for stats in content["partitionToWriteStats"].values() for stat in stats}
        for name, content in metadata.items()
        if _action(name) in _COMMITS and _instant(name) >= earliest
    }


def files_there(table: Path) -> set[str]:
    """Return the data files of a table, relative to it."""
    return {
        os.path.relpath(Path(folder) / file, table)
        for folder, _, files in os.walk(table)
        if not Path(folder).is_relative_to(table / ".hoodie")
        for file in files
    }


def _files_of(part: Any) -> Iterator[str]:
    if part.base_file_name:
        yield part.base_file_relative_path()
    yield from part.log_files_relative_paths()


def _archived(table: Path) -> set[str]:
    files = (table / _TIMELINE / "history").glob("*.parquet")
    return {time for file in files for time in pyarrow.parquet.read_table(file, columns=["instantTime"])[0].to_pylist()}


def _what(name: str, content: Mapping[str, Any]) -> str:
    """Return the service that an instant is of, else Hudi's word for it, or that it was given up."""
    if _GIVEN_UP in (content.get("extraMetadata") or {}):
        return _GIVEN_UP
    operation = str(content.get("operationType") or _action(name))
    return _SERVICES.get(operation, operation)


def _record(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as file:
        content: Any = next(iter(fastavro.reader(file)))
    found: Mapping[str, Any] = content
    return found


def _instant(name: str) -> str:
    return name.partition("_")[0]


def _action(name: str) -> str:
    return name.rpartition(".")[2]


# -- the executors


def read_intervals(witness: Path) -> list[Interval]:
    """Return what the executors did, from what they told, and when each JVM was seen dead (`deaths.py`).

    A step without an end was cut off when its JVM was last seen alive, or a moment later: it is given the earlier
    time, so that an overlap that is found is one.
    """
    told = [json.loads(line) for line in witness.read_text().splitlines()]
    jvms = {each["pid"]: each["jvm"] for each in told if each["what"] == "session"}
    deaths = {each["jvm"]: each["alive_at"] for each in told if each["what"] == "dead"}
    open_steps: dict[tuple[Any, ...], Interval] = {}
    found: list[Interval] = []
    for each in told:
        key = (each["pid"], each.get("run"), each.get("step"))
        match each["what"]:
            case "begin":
                cut = deaths.get(jvms.get(each["pid"]), math.inf)
                open_steps[key] = _interval(each, until=max(cut, each["at"]))
            case "end":
                found.append(replace(open_steps.pop(key), until=each["at"]))
    return sorted([*found, *open_steps.values()], key=lambda interval: interval.begun)


def _interval(told: Mapping[str, Any], *, until: float) -> Interval:
    return Interval(
        run=told["run"],
        epoch=told["epoch"],
        table=told["table"],
        service=told["service"],
        instant=told["instant"],
        step=told["step"],
        begun=told["at"],
        until=until,
    )
