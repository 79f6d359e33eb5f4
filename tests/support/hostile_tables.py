"""Hostile tables: each attacks one guarantee, and says how it must look to whoever asks for it.

    python -m tests.support.hostile_tables FOLDER [--small]

makes all of them below FOLDER, beside a table that their plans would like to harm, and tells what each is for.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from lakewarden.planners.model.clock import ManualClock
from tests.support.hudi_table import HudiTable, base_file


class Looks(StrEnum):
    """What a daemon must show of a hostile table. None may look healthy and empty, none may end a request badly."""

    TROUBLED = "it has trouble or faults, or its services are Blocked: nothing is executed"
    BLOCKED = "the service with the hostile plan is Blocked, and says which path or plan"
    SHOWN = "as any other table; whatever is shown of it is printable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """How large the large ones are."""

    entries: int = 150_000
    lines: int = 2_000_000
    inflated: int = 3 * 2**30
    levels: int = 200_000
    metadata: int = 64 * 2**20


FULL = Scale()
SMALL = Scale(entries=3_000, lines=60_000, inflated=300 * 2**20, levels=20_000, metadata=2**20)
"""For tests: a minute for all of them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where one table is made. `foreign` is another table that nobody may touch, with canaries in partition `p0`."""

    folder: Path
    foreign: Path
    scale: Scale = FULL

    def hudi(self, *, version: int = 9, **more: Any) -> HudiTable:
        """Return a new table with two ordinary commits, stamped lately: nothing is wrong with it yet."""
        clock = ManualClock(datetime.now(UTC) - timedelta(minutes=30))
        table = HudiTable(self.folder, version=version, clock=clock, zone=UTC, **more)
        for number in range(2):
            table.write({"p0": [base_file(f"a-{number}", "20260101000000000")]})
        return table


@dataclass(frozen=True, kw_only=True, slots=True)
class Hostile:
    """One hostile table: its name, the guarantee that it attacks, and how it must look."""

    name: str
    format: str
    attacks: str
    looks: Looks
    make: Callable[[Place], None]
    eager: bool = False

    def entry(self, folder: Path) -> dict[str, Any]:
        """Return its entry in a configuration that would let a daemon do all that its plans ask for. All that commits
        say is read for its triggers, which nothing fires unless the table is `eager`.
        """
        commits = 2 if self.eager else 50
        by_files = {"any_of": [{"num_commits": commits}, {"log_files": 50}, {"log_bytes": "10GiB"}]}
        taken_up = {"schedule": "both", "grace": "1s"}
        services: Mapping[str, Any] = {
            "compaction": {**taken_up, "trigger": by_files},
            "log_compaction": {"trigger": {"log_files": 50}},
            "clustering": {"trigger": {"small_files": 50}},
            "clean": {**taken_up, "trigger": {"num_commits": commits}, "options": {"commits_retained": 1}},
            "rollback": {},
            "archive": {
                "trigger": {"num_commits": commits},
                "options": {"keep_min_commits": 2, "keep_max_commits": 3},
            },
            "ttl": {"options": {"days_retain": 400}},
        }
        options: Mapping[str, Any] = {"writers": "none", "timeline_timezone": "UTC"}
        if self.format == "iceberg":
            services, options = {"compaction": {}, "clean": {}, "orphans": {}, "archive": {}}, {}
        entry = {"id": f"hostile.{self.name}", "format": self.format, "path": str(folder / self.name), "mode": "act"}
        return {**entry, "poll": "10s", "options": dict(options), "services": dict(services)}


CORPUS: list[Hostile] = []
"""Every hostile table there is, once `whole_corpus` was asked for it."""


def hostile(
    kind: str, attacks: str, looks: Looks = Looks.TROUBLED, *, name: str | None = None
) -> Callable[[Callable[[Place], None]], Callable[[Place], None]]:
    """Take a function that makes a table into the corpus."""

    def taken(make: Callable[[Place], None]) -> Callable[[Place], None]:
        CORPUS.append(Hostile(name=name or make.__name__, format=kind, attacks=attacks, looks=looks, make=make))
        return make

    return taken


def whole_corpus() -> list[Hostile]:
    """Return every hostile table."""
    from tests.support import hostile_hudi, hostile_iceberg, hostile_plans  # noqa: PLC0415 - they need this module

    assert hostile_hudi, hostile_plans
    assert hostile_iceberg
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
    nobody can set: equal if nothing was touched, not even made and removed again.
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
    # the module that the makers know, and not this one, which Python calls __main__
    from tests.support import hostile_tables

    sys.exit(hostile_tables.main())
