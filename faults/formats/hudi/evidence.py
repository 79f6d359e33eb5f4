"""Gathers the history of a Hudi table: fastavro and pyarrow read the metadata, hudi-rs reads the rows.

No code of Lakewarden is used, for it is under test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet
from hudi import HudiReadOptions, HudiTable

from faults.checking.history import TimelineFound

_TIMELINE = Path(".hoodie") / "timeline"
_COMPLETED = re.compile(r"(?P<instant>\d+)_(?P<completed>\d+)\.(?P<action>[a-z]+)")
_PENDING = re.compile(r"(?P<instant>\d+)\.(?P<action>[a-z]+)\.(?:requested|inflight)")
_COMMITS = frozenset({"commit", "deltacommit", "replacecommit"})
_GIVEN_UP = "lakewarden.given_up"
"""The word for a completed instant without files: its plan was not carried out, and no run succeeded on it."""
_SERVICES = {"COMPACT": "compaction", "LOG_COMPACT": "log_compaction", "CLUSTER": "clustering"}


def read_timeline(table: Path) -> tuple[TimelineFound, Mapping[str, Mapping[str, Any]]]:
    """Return the timeline, and the metadata of each completed instant by the name of its file."""
    names = [path.name for path in (table / _TIMELINE).iterdir()]
    metadata = {name: _record(table / _TIMELINE / name) for name in names if _COMPLETED.fullmatch(name)}
    # a savepoint has the instant of the commit that it holds
    completed = {_instant(name): _what(name, m) for name, m in metadata.items() if _action(name) != "savepoint"}
    pending = {f"{instant}.{action}" for instant, action in pending_on(table)}
    return TimelineFound(completed=completed, pending=pending, archived=_archived(table)), metadata


def pending_on(table: Path) -> set[tuple[str, str]]:
    """Return the pending instants of a table, each with its action. Empty if there is no table yet."""
    try:
        names = [path.name for path in (table / _TIMELINE).iterdir()]
    except FileNotFoundError:
        return set()
    completed = {_instant(name) for name in names if _COMPLETED.fullmatch(name)}
    found = (_PENDING.fullmatch(name) for name in names)
    return {(m["instant"], m["action"]) for m in found if m is not None and m["instant"] not in completed}


def files_needed(table: Path, metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the files that each retained instant refers to: the files that its commit says it wrote, and the files of
    the file slices that a query as of the instant reads.
    """
    hudi = HudiTable(str(table))
    needed = referenced(metadata)
    for instant, files in needed.items():
        for part in hudi.get_file_slices(HudiReadOptions().with_as_of_timestamp(instant)):
            files.update(_files_of(part))
    return needed


def referenced(metadata: Mapping[str, Mapping[str, Any]]) -> dict[str, set[str]]:
    """Return the files that each retained commit says it wrote. An instant is retained until a completed clean gives it
    up.
    """
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
    """Return the service of an instant. If it has none, return Hudi's word for the action, or that the instant was
    given up.
    """
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
