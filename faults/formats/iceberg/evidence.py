"""Gathers the history of an Iceberg table: its metadata as JSON, its manifests by fastavro, its rows by pyiceberg.

No code of Lakewarden is used, for it is under test.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.table import Table

from faults.checking.history import TimelineFound
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.writers.orders import Row

_RUN, _SERVICE, _PART, _MORE = "lakewarden.run-id", "lakewarden.service", "lakewarden.part", "more"
_STATISTICS = re.compile(r"\d+-\d+-lakewarden-(?P<run>.+)\.stats")
_TABLE_STATS = "table_stats"
_DELETED = 2

DELETING = ("clean", "orphans")
"""The services with a plan beside the table."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlansFound:
    """The plans of one service beside a table: the name of the pending plan, and those of the completed plans."""

    pending: str | None = None
    completed: Sequence[str] = ()


def plans_beside(table: Path, service: str) -> PlansFound:
    """Return the plans of a service. Each version of the file is written to a second file first. If one of them is cut
    off, the other one is whole. Raises ValueError if neither is.
    """
    found = PlansFound()
    for name in (f"lakewarden-{service}.json", f"lakewarden-{service}.next.json"):
        try:
            raw = json.loads((table / "metadata" / name).read_text())
        except FileNotFoundError:
            continue
        except ValueError:
            found = PlansFound(pending=f"an unreadable plan of {service}")
            continue
        pending = raw["pending"]
        return PlansFound(
            pending=None if pending is None else pending["instant"],
            completed=tuple(plan["instant"] for plan in raw["completed"]),
        )
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Signed:
    """An instant that names a run of ours, and its service."""

    service: str
    run: str


class MetadataSeen:
    """All metadata files that lay in a table's folder at any time. A table keeps the newest hundred versions of its
    metadata, and each commit deletes one of them. So they are read while the trial goes on.
    """

    def __init__(self) -> None:
        self._previous: dict[str, str | None] = {}
        self._signed: dict[str, Mapping[str, Signed]] = {}

    def look(self, table: Path) -> None:
        """Read the files that are new. A file that is not whole yet is read the next time."""
        for file in (table / "metadata").glob("*.metadata.json"):
            if file.name in self._previous:
                continue
            with suppress(FileNotFoundError, ValueError):
                metadata = _metadata(file)
                log = metadata.get("metadata-log", ())
                self._signed[file.name] = dict(_signed(metadata))
                self._previous[file.name] = local(log[-1]["metadata-file"]).name if log else None

    def committed(self, newest: Path) -> dict[str, Signed]:
        """Return our instants in all versions that led to the newest one: snapshots and statistics. Metadata that was
        never committed has no successor, and does not count. Raises ValueError if a version was not seen.
        """
        found: dict[str, Signed] = {}
        name: str | None = newest.name
        while name is not None:
            if name not in self._previous:
                raise ValueError(f"{name} was deleted before it was seen, so it is not known what the table was")
            found |= self._signed[name]
            name = self._previous[name]
        return found


def _signed(metadata: Mapping[str, Any]) -> Iterator[tuple[str, Signed]]:
    """Yield our instants in a version of the metadata. A snapshot with which a run has not finished its commit is left
    out.
    """
    for snapshot in metadata.get("snapshots", ()):
        summary = snapshot.get("summary", {})
        if _RUN in summary and summary.get(_PART) != _MORE:
            yield str(snapshot["snapshot-id"]), Signed(service=summary[_SERVICE], run=summary[_RUN])
    for statistics in metadata.get("statistics", ()):
        name = statistics["statistics-path"].rpartition("/")[2]
        if ours := _STATISTICS.fullmatch(name):
            yield name, Signed(service=_TABLE_STATS, run=ours["run"])


def timeline_found(
    signed: Mapping[str, Signed], plans: Mapping[str, PlansFound], *, seen: Mapping[str, str]
) -> TimelineFound:
    """Return our instants: those that name their run, and the deletions by the plans beside the table (by their
    services). `seen` are completed plans that were found earlier, with their services. Only the newest plans stay in
    the file.
    """
    completed = {instant: one.service for instant, one in signed.items()}
    for service, of_service in plans.items():
        completed |= dict.fromkeys(of_service.completed, service)
    pending = {f"{of_service.pending}.{service}" for service, of_service in plans.items() if of_service.pending}
    return TimelineFound(
        completed=completed,
        pending=pending,
        archived=seen.keys() - completed.keys(),
        authors={instant: one.run for instant, one in signed.items()},
    )


def files_needed(newest: Path) -> dict[str, set[str]]:
    """Return the files that each snapshot of the newest metadata refers to: its manifest list, its manifests, its data
    files and its delete files. And the files that the metadata itself names.
    """
    metadata = _metadata(newest)
    manifests: dict[Path, set[str]] = {}
    named = [entry["metadata-file"] for entry in metadata.get("metadata-log", ())]
    named += [entry["statistics-path"] for entry in metadata.get("statistics", ())]
    named += [entry["statistics-path"] for entry in metadata.get("partition-statistics", ())]
    needed = {"of the metadata": {str(newest), *(str(local(path)) for path in named)}}
    for snapshot in metadata.get("snapshots", ()):
        of_snapshot = {str(local(snapshot["manifest-list"]))}
        for entry in _avro(local(snapshot["manifest-list"])):
            manifest = local(entry["manifest_path"])
            if manifest not in manifests:
                manifests[manifest] = set(_content_files(manifest))
            of_snapshot |= {str(manifest), *manifests[manifest]}
        needed[str(snapshot["snapshot-id"])] = of_snapshot
    return needed


def files_there(table: Path) -> set[str]:
    """Return all files below the table's folder."""
    return {str(Path(folder) / file) for folder, _, files in os.walk(table) for file in files}


def rows_changed(table: Table, rows_at: Callable[[int], Mapping[str, Row]]) -> dict[str, int]:
    """Return our snapshots with other rows than their parents, each with the number of rows. Snapshots with a parent
    that has expired, or that cannot be read, are left out.
    """
    there = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    changed = {}
    for snapshot in table.metadata.snapshots:
        ours = snapshot.summary is not None and snapshot.summary.additional_properties.get(_RUN)
        parent = snapshot.parent_snapshot_id
        if not ours or parent not in there or parent is None:
            continue
        try:
            wrong = count_wrong_rows(rows_at(snapshot.snapshot_id), rows_at(parent))
        except Exception:  # noqa: BLE001 - time travel reports whatever a foreign reader raises
            continue
        if wrong:
            changed[str(snapshot.snapshot_id)] = wrong
    return changed


def local(path: str) -> Path:
    """Return the path of a file, without the scheme."""
    return Path(re.sub(r"^file:/*", "/", path))


def _metadata(file: Path) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(file.read_text())
    return found


def _content_files(manifest: Path) -> Iterator[str]:
    for entry in _avro(manifest):
        if entry["status"] != _DELETED:
            yield str(local(entry["data_file"]["file_path"]))


def _avro(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the records of a file. A file that is gone has none: that it is needed is reported with its name."""
    with suppress(FileNotFoundError), file.open("rb") as opened:
        for record in fastavro.reader(opened):
            if isinstance(record, Mapping):
                yield record
