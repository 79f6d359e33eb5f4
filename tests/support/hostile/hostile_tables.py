"""Hostile tables: each attacks one guarantee, and says how a daemon must show it.

    python -m tests.support.hostile.hostile_tables FOLDER [--small]

makes all of them below FOLDER, beside a table that their plans would like to harm, and tells what each is for.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from lakewarden.planners.model.clock import ManualClock
from tests.support.hostile import hostile_hudi, hostile_iceberg, hostile_plans
from tests.support.hostile.hostile_table import CORPUS, FULL, SMALL, Hostile, Place, Scale
from tests.support.hudi.hudi_table import HudiTable


def whole_corpus() -> list[Hostile]:
    """Return every hostile table."""
    assert {hostile_hudi, hostile_iceberg, hostile_plans}  # each puts its tables into the corpus when it is imported
    return CORPUS


def make_foreign(folder: Path) -> Path:
    """Make the table that hostile plans name, with canaries of data in its partition, and return its folder."""
    foreign = folder / "foreign"
    HudiTable(foreign, version=9, clock=ManualClock(datetime.now(UTC)), zone=UTC)
    for number in range(3):
        canary = foreign / "p0" / f"keep-{number}_0-1-2_20260101000000000.parquet"
        canary.parent.mkdir(exist_ok=True)
        canary.write_bytes(f"canary {number}".encode())
    (foreign / "p0" / ".hoodie_partition_metadata").write_bytes(b"commitTime=20260101000000000\npartitionDepth=1\n")
    return foreign


def make_corpus(folder: Path, *, scale: Scale = FULL, only: Iterable[str] = ()) -> list[Hostile]:
    """Make the hostile tables below `folder/tables`, and the foreign table beside them; return those that were made."""
    foreign = make_foreign(folder)
    wanted = frozenset(only)
    made = [one for one in whole_corpus() if not wanted or one.name in wanted]
    for one in made:
        place = folder / "tables" / one.name
        place.parent.mkdir(parents=True, exist_ok=True)
        one.make(Place(folder=place, foreign=foreign, scale=scale))
    return made


def untouched(folder: Path) -> Mapping[str, str]:
    """Return what lies in and below a folder, each with a digest of its content and the time of its last change, which
    no program can set: equal if nothing was touched, not even made and removed again.
    """
    found = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        content = path.read_bytes() if path.is_file() else b""
        changed = path.lstat().st_ctime_ns
        found[str(path.relative_to(folder))] = f"{hashlib.sha256(content).hexdigest()} {changed}"
    return found


def main() -> int:
    """Make the corpus and tell what each table is for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--small", action="store_true", help="large ones are not so large")
    parser.add_argument("--only", action="append", default=[], help="the tables of these names")
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    for one in make_corpus(asked.folder.resolve(), scale=SMALL if asked.small else FULL, only=asked.only):
        sys.stdout.write(f"{one.name:<34} {one.attacks}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
