"""The report of a trial with hostile tables and clients: the load on the daemon, and the findings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console

from faults.hostile.gauges import Measured
from faults.trials.report import counts, told_runs


@dataclass(frozen=True, kw_only=True, slots=True)
class HostileReport:
    """What one trial saw. `longest_unseen_seconds` is the longest time without an observation of a good table.
    `memory_bytes` is the memory of the daemon and of all its child processes without the JVMs. `seconds_to_end` is None
    if the daemon did not end in time.
    """

    seconds: float
    good_tables: int
    hostile_tables: int
    hanging_tables: int
    cadence_seconds: float
    longest_unseen_seconds: float
    livez: int
    livez_failed: int
    livez_slowest_seconds: float
    memory_bytes: int
    log_bytes: int
    commits: int
    runs: Mapping[str, Mapping[str, int]]
    attacks: Mapping[str, int]
    seconds_to_end: float | None
    violations: Sequence[str]

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def tell(self, console: Console) -> None:
        """Print it for people."""
        ended = "did not end in time" if self.seconds_to_end is None else f"ended in {self.seconds_to_end:.1f} s"
        console.print(
            f"{self.good_tables} good tables beside {self.hostile_tables} hostile ones, {self.hanging_tables} in bad "
            f"stores and {sum(self.attacks.values())} attacks by clients, {self.seconds:.0f} s",
            style="bold",
            soft_wrap=True,
        )
        for line in (
            f"good      observed every {self.cadence_seconds:g} s, at the latest after "
            f"{self.longest_unseen_seconds:.1f} s; {self.commits} commits of their writer",
            f"runs      {told_runs(self.runs)}",
            f"/livez    {self.livez} times asked, {self.livez_failed} failed, slowest {self.livez_slowest_seconds} s",
            f"daemon    {self.memory_bytes / 2**20:.0f} MiB without JVMs, {self.log_bytes / 2**20:.2f} MiB of log; "
            f"{ended}",
            f"clients   {counts(self.attacks)}",
        ):
            console.print(line, soft_wrap=True, markup=False)
        for violation in self.violations:
            console.print(ascii(violation)[1:-1], style="red", markup=False, soft_wrap=True)
        if self.violations:
            console.print(f"{len(self.violations)} violations", style="red")
        else:
            console.print("no good table was harmed", style="green")


def longest_unseen(measured: Measured) -> float:
    """Return the longest time without an observation of a good table."""
    return round(max(measured.ages.values(), default=0.0), 1)
