"""What the proof of a fleet saw, and what it missed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console

from live.fleet.configuration import MOST_LINES
from live.fleet.operator import Command


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """What `explain` said of a run before it, and what the run did."""

    table: str
    service: str
    figure: str
    forecast: float
    done: float

    @property
    def is_off(self) -> bool:
        """Whether one is more than twice the other."""
        low, high = sorted((self.forecast, self.done))
        return high > 2 * low


@dataclass(kw_only=True)
class FleetReport:
    """The figures of one proof."""

    tables: int
    healthy: int = 0
    config_lines: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    commands: Sequence[Command] = ()
    acting: int = 0
    named: dict[str, str] = field(default_factory=dict)
    not_named: list[str] = field(default_factory=list)
    harmed: list[str] = field(default_factory=list)
    wrong_rows: list[str] = field(default_factory=list)
    runs: Mapping[str, int] = field(default_factory=dict)
    ratios: list[Ratio] = field(default_factory=list)
    writes: int = 0
    write_failures: list[str] = field(default_factory=list)
    status: str = ""

    def shortcomings(self) -> list[str]:
        """Return what was promised and not shown, one sentence each. Empty is success."""
        found = []
        if self.config_lines > MOST_LINES:
            found.append(f"the configuration has {self.config_lines} lines, and {MOST_LINES} are allowed")
        if self.acting < self.healthy:
            found.append(f"{self.acting} of {self.healthy} tables without a fault are acted on")
        found += [f"{table} is not named with its cure" for table in self.not_named]
        found += [f"{table} was harmed" for table in self.harmed]
        found += [f"the rows of {table} are wrong" for table in self.wrong_rows]
        found += [f"a write failed: {one}" for one in self.write_failures]
        return found

    def write(self, file: Path) -> None:
        """Write it as JSON."""
        whole = {**asdict(self), "shortcomings": self.shortcomings()}
        file.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")

    def tell(self, console: Console) -> None:
        """Print it for people."""
        console.print(f"{self.tables} tables, {self.healthy} of them without a fault", style="bold")
        for name, seconds in self.seconds.items():
            console.print(f"{seconds:8.1f} s  {name}", markup=False)
        for command in self.commands:
            console.print(f"{command.seconds:8.1f} s  {command.code}  {command.said[:150]}", markup=False)
        for kind, said in self.named.items():
            console.print(f"{kind}: {said}", markup=False, soft_wrap=True)
        console.print(f"runs: {dict(self.runs)}", markup=False)
        for figure in sorted({one.figure for one in self.ratios}):
            some = sorted(one.done / one.forecast for one in self.ratios if one.figure == figure and one.forecast)
            off = sum(one.is_off for one in self.ratios if one.figure == figure)
            if some:
                console.print(
                    f"{figure}: done / forecast is {some[len(some) // 2]:.2f} in the middle, {some[0]:.2f} to "
                    f"{some[-1]:.2f} of {len(some)}; {off} are off by more than 2"
                )
        console.print(f"{self.writes} writes, {len(self.write_failures)} failed")
        for shortcoming in self.shortcomings()[:50]:
            console.print(shortcoming, style="red", markup=False, soft_wrap=True)
