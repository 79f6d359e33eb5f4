"""What a hostile table is: the guarantee that it attacks, how it must look, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from lakewarden.planners.model.clock import ManualClock
from tests.support.hudi.hudi_table import HudiTable, base_file


class Looks(StrEnum):
    """What a daemon must show of a hostile table. None may look healthy and empty, none may end a request badly."""

    FAILING = "it has trouble or faults, or its services are Blocked: nothing is executed"
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

    def hudi(self, **more: Any) -> HudiTable:
        """Return a new table with two ordinary commits, stamped lately: nothing is wrong with it yet."""
        clock = ManualClock(datetime.now(UTC) - timedelta(minutes=30))
        table = HudiTable(self.folder, version=9, clock=clock, zone=UTC, **more)
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
"""Every hostile table there is, once `hostile_tables` was imported."""


def hostile(
    kind: str, attacks: str, looks: Looks = Looks.FAILING, *, name: str | None = None
) -> Callable[[Callable[[Place], None]], Callable[[Place], None]]:
    """Take a function that makes a table into the corpus."""

    def taken(make: Callable[[Place], None]) -> Callable[[Place], None]:
        CORPUS.append(Hostile(name=name or make.__name__, format=kind, attacks=attacks, looks=looks, make=make))
        return make

    return taken
