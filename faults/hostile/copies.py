"""Copies of a real table with plans as Hudi writes them. The files in the plans are those of the original table."""

from __future__ import annotations

import io
import os
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro

from faults.hostile.lake import Lake
from lakewarden.planners.formats.hudi.metadata.timeline import instant_time
from tests.support.hostile.hostile_table import Hostile, Looks

_FIXTURE = Path(__file__).parents[2] / "tests" / "fixtures" / "hudi" / "mor_v9.zip"
_ORIGINAL = "orders"
_DEAD_SINCE = timedelta(minutes=40)
"""Longer than a heartbeat may be silent (`options.dead_after` of the table)."""


def make_copies(lake: Lake, directory: Path) -> Sequence[Hostile]:
    """Make an original that is not registered, at `directory/foreign/orders`, and registered copies of it."""
    original, tables = directory / "foreign" / _ORIGINAL, directory / "tables"
    lake.copy(lake.names[0], original)
    files = sorted(original.glob("*/*.parquet"))
    partition = files[0].parent.name
    dots = tables / "copy_with_a_clean_through_dots"
    roundabout = [dots / ".." / ".." / "foreign" / file.relative_to(original.parent) for file in files]
    plans: dict[str, dict[str, Any]] = {
        "copy_with_a_clean": {"filePathsToBeDeletedPerPartition": _to_delete(files)},
        "copy_with_a_clean_of_a_partition": {"partitionsToBeDeleted": [f"../../foreign/{_ORIGINAL}/{partition}"]},
        dots.name: {"filePathsToBeDeletedPerPartition": _to_delete(roundabout)},
    }
    planned = [_copied(original, tables / name) for name in plans]
    for copy, changes in zip(planned, plans.values(), strict=True):
        _plan_a_clean(tables / copy.name, changes)
    moved = _copied(original, tables / "copy_with_a_base_path", looks=Looks.SHOWN)
    _say_in_properties(tables / moved.name, "hoodie.base.path", str(original))
    remembered = _copied(original, tables / "copy_with_a_history_elsewhere", looks=Looks.SHOWN)
    _say_in_properties(
        tables / remembered.name, "hoodie.timeline.history.path", f"../../../../foreign/{_ORIGINAL}/history"
    )
    dead = _copied(original, tables / "copy_with_markers", looks=Looks.SHOWN)
    _leave_a_dead_write(tables / dead.name, foreign=directory / "foreign" / "orders")
    return [*planned, moved, remembered, dead]


def _say_in_properties(table: Path, key: str, value: str) -> None:
    with (table / ".hoodie" / "hoodie.properties").open("a", encoding="utf-8") as properties:
        properties.write(f"{key}={value}\n")


def _leave_a_dead_write(table: Path, *, foreign: Path) -> None:
    """Leave a write of a dead writer, with markers as a timeline server writes them. The markers name files of a
    neighbour. The neighbour's name begins with the table's name, so that Hudi takes its folder for a part of the table.
    """
    neighbour = foreign.with_name(f"{table.name}_of_others")
    (table.parent / neighbour.name).symlink_to(neighbour)
    victim = next(foreign.glob("*/*.parquet"))
    shutil.copytree(victim.parent, neighbour / victim.parent.name)
    instant = instant_time(datetime.now(UTC) - _DEAD_SINCE, UTC)
    for state in ("requested", "inflight"):
        (table / ".hoodie" / "timeline" / f"{instant}.deltacommit.{state}").touch()
    beat = table / ".hoodie" / ".heartbeat" / instant
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    long_ago = time.time() - _DEAD_SINCE.total_seconds()
    os.utime(beat, (long_ago, long_ago))
    markers = table / ".hoodie" / ".temp" / instant
    markers.mkdir(parents=True)
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    marked = f"{victim.parent.name}/../../{neighbour.name}/{victim.parent.name}/{victim.name}.marker.CREATE"
    (markers / "MARKERS0").write_text(f"{marked}\n")


def _to_delete(files: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    to_delete: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        to_delete.setdefault(file.parent.name, []).append({"filePath": f"file:{file}", "isBootstrapBaseFile": False})
    return to_delete


def _copied(original: Path, copy: Path, *, looks: Looks = Looks.BLOCKED) -> Hostile:
    shutil.copytree(original, copy)
    made: Callable[[Any], None] = lambda _: None  # noqa: E731 - it is made already
    attacks = "A copy of a real table: its metadata acts on the original table, or on a neighbour."
    return Hostile(name=copy.name, format="hudi", attacks=attacks, looks=looks, make=made, eager=True)


def _plan_a_clean(copy: Path, changes: dict[str, Any]) -> None:
    schema, plan = _a_clean_plan()
    plan = {**plan, "filePathsToBeDeletedPerPartition": {}, "partitionsToBeDeleted": [], **changes}
    out = io.BytesIO()
    fastavro.writer(out, schema, [plan])
    instant = instant_time(datetime.now(UTC), UTC)
    (copy / ".hoodie" / "timeline" / f"{instant}.clean.requested").write_bytes(out.getvalue())


def _a_clean_plan() -> tuple[Any, dict[str, Any]]:
    """Return a clean plan that Hudi has written, with its schema."""
    with zipfile.ZipFile(_FIXTURE) as packed:
        name = next(name for name in packed.namelist() if name.endswith(".clean.requested"))
        reader = fastavro.reader(io.BytesIO(packed.read(name)))
    plan: Any = next(reader)
    return reader.writer_schema, dict(plan)
