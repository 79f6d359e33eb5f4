"""Copies of a real table that carry plans, as Hudi writes them, whose files are those of the original."""

from __future__ import annotations

import io
import shutil
import time
import zipfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro

from faults.hostile.lake import Lake
from lakewarden.planners.formats.hudi.times import instant_time
from tests.support.hostile_tables import Hostile, Looks

_FIXTURE = Path(__file__).parents[2] / "tests" / "fixtures" / "hudi" / "mor_v9.zip"
_ORIGINAL = "orders"


def make_copies(lake: Lake, directory: Path) -> Sequence[Hostile]:
    """Make an original that nobody registered, at `directory/foreign/orders`, and registered copies of it."""
    original = directory / "foreign" / _ORIGINAL
    lake.copy(lake.names[0], original)
    files = sorted(original.glob("*/*.parquet"))
    partition = files[0].parent.name
    within = directory / "tables" / "copy_with_a_clean_through_dots"
    roundabout = [within / ".." / ".." / "foreign" / file.relative_to(original.parent) for file in files]
    plans: dict[str, dict[str, Any]] = {
        "copy_with_a_clean": {"filePathsToBeDeletedPerPartition": _doomed(files)},
        "copy_with_a_clean_of_a_partition": {"partitionsToBeDeleted": [f"../../foreign/{_ORIGINAL}/{partition}"]},
        "copy_with_a_clean_through_dots": {"filePathsToBeDeletedPerPartition": _doomed(roundabout)},
    }
    return [_copied(original, directory / "tables" / name, changes) for name, changes in plans.items()]


def _doomed(files: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    doomed: dict[str, list[dict[str, Any]]] = {}
    for file in files:
        doomed.setdefault(file.parent.name, []).append({"filePath": f"file:{file}", "isBootstrapBaseFile": False})
    return doomed


def _copied(original: Path, copy: Path, changes: dict[str, Any]) -> Hostile:
    shutil.copytree(original, copy)
    schema, plan = _a_clean_plan()
    plan = {**plan, "filePathsToBeDeletedPerPartition": {}, "partitionsToBeDeleted": [], **changes}
    out = io.BytesIO()
    fastavro.writer(out, schema, [plan])
    time.sleep(0.002)  # an instant of its own
    instant = instant_time(datetime.now(UTC), UTC)
    (copy / ".hoodie" / "timeline" / f"{instant}.clean.requested").write_bytes(out.getvalue())
    attacks = "A copy of a real table: what its pending clean deletes is the original's."
    made: Callable[[Any], None] = lambda _: None  # noqa: E731 - it is made already
    return Hostile(name=copy.name, format="hudi", attacks=attacks, looks=Looks.BLOCKED, make=made)


def _a_clean_plan() -> tuple[Any, dict[str, Any]]:
    """Return a plan that Hudi has written, with its schema."""
    with zipfile.ZipFile(_FIXTURE) as packed:
        name = next(name for name in packed.namelist() if name.endswith(".clean.requested"))
        reader = fastavro.reader(io.BytesIO(packed.read(name)))
    plan: Any = next(reader)
    return reader.writer_schema, dict(plan)
