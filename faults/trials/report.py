"""The report: the faults, the recoveries, and the findings of the checker."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
from rich.table import Table as Grid

from faults.injection.schedule import NUMBERED
from faults.trials.rounds import Round
from lakewarden.demo.report import WriterTally
from lakewarden.executors.points import Point


@dataclass(frozen=True, kw_only=True, slots=True)
class Seconds:
    """The median and the maximum of some times; 0 if there are none."""

    p50: float = 0.0
    max: float = 0.0

    @classmethod
    def of(cls, times: Iterable[float]) -> Seconds:
        """Return them, rounded."""
        found = list(times)
        return cls(p50=round(median(found), 2), max=round(max(found), 2)) if found else cls()


@dataclass(frozen=True, kw_only=True, slots=True)
class FaultsReport:
    """What one run of the harness saw. `kills` are the rounds by the point that was reached, `elsewhere` those without
    their point reached. A recovery lasts from the fault until the table has recovered. During it the service was
    Blocked for `heartbeat_wait_seconds` by a heartbeat, and for `rest_wait_seconds` by the delay after a failure.
    `resumed` counts the quarantines that so many faults in a row had caused.
    """

    format: str
    seed: int
    seconds: float
    rounds: int
    kills: Mapping[str, int]
    elsewhere: int
    by_victim: Mapping[str, int]
    by_service: Mapping[str, int]
    violations: Sequence[str]
    recovery_seconds: Seconds
    recovery_seconds_by_victim: Mapping[str, Seconds]
    heartbeat_wait_seconds: Seconds
    rest_wait_seconds: Seconds
    writer: WriterTally
    runs: Mapping[str, Mapping[str, int]]
    resumed: int = 0

    def write(self, path: Path) -> None:
        """Write it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2) + "\n", encoding="utf-8")

    def tell(self, console: Console) -> None:
        """Print it for people."""
        grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        for heading in ("point", "faults"):
            grid.add_column(heading, justify="left" if heading == "point" else "right")
        for point, times in self.kills.items():
            grid.add_row(point, str(times))
        grid.add_row("elsewhere", str(self.elsewhere))
        console.print(f"{self.format}: {self.rounds} rounds with seed {self.seed}, {self.seconds:.0f} s", style="bold")
        console.print(grid)
        recovery, heartbeat, rest = self.recovery_seconds, self.heartbeat_wait_seconds, self.rest_wait_seconds
        for line in (
            f"victims   {counts(self.by_victim)}",
            f"runs      {told_runs(self.runs)}",
            f"writer    {self.writer.commits} commits, {self.writer.failures} failed",
            f"recovery  {recovery.p50:.1f} s median, {recovery.max:.1f} s at most; of it for a heartbeat "
            f"{heartbeat.p50:.1f} s and {heartbeat.max:.1f} s, resting {rest.p50:.1f} s and {rest.max:.1f} s",
        ):
            console.print(line, soft_wrap=True)
        tell_verdict(console, self.violations, seed=self.seed)


def report_of(
    rounds: Sequence[Round],
    *,
    table_format: str,
    points: Sequence[Point],
    seed: int,
    seconds: float,
    violations: Sequence[str],
    writer: WriterTally,
    runs: Mapping[str, Mapping[str, int]],
    resumed: int,
) -> FaultsReport:
    """Return the report of the rounds. `points` are the points at which faults were injected."""
    recovered = [(each, each.recovery.seconds) for each in rounds if each.recovery.seconds is not None]
    victims = Counter(each.fault.victim for each in rounds)
    return FaultsReport(
        format=table_format,
        seed=seed,
        seconds=round(seconds, 1),
        rounds=len(rounds),
        kills=_in_order(points, Counter(each.fault.point for each in rounds if each.reached)),
        elsewhere=sum(not each.reached for each in rounds),
        by_victim={victim.value: times for victim, times in sorted(victims.items())},
        by_service=dict(sorted(Counter(each.recovery.service.value for each in rounds).items())),
        violations=violations,
        recovery_seconds=Seconds.of(took for _, took in recovered),
        recovery_seconds_by_victim={
            victim.value: Seconds.of(took for each, took in recovered if each.fault.victim is victim)
            for victim in sorted(victims)
        },
        heartbeat_wait_seconds=Seconds.of(each.recovery.heartbeat for each, _ in recovered),
        rest_wait_seconds=Seconds.of(each.recovery.rest for each, _ in recovered),
        writer=writer,
        runs=runs,
        resumed=resumed,
    )


def name_of(point: Point) -> str:
    """Return a point's name with its number, as `K4 executed`."""
    return f"K{NUMBERED.index(point)} {point}" if point in NUMBERED else point.value


def line_of(this: Round, *, of: int | None) -> str:
    """Return one round on one line."""
    fault, recovery = this.fault, this.recovery
    number = f"{fault.number}" if of is None else f"{fault.number}/{of}"
    where = name_of(fault.point) if this.reached else f"elsewhere ({name_of(fault.point)} was not reached)"
    if recovery.seconds is None:
        took = "not waited for" if not fault.patient else "NOT RECOVERED YET"
    else:
        took = f"recovered after {recovery.seconds:.1f} s"
    waits = ((recovery.heartbeat, "for a heartbeat"), (recovery.rest, "resting"))
    of_it = ", ".join(f"{seconds:.1f} s {what}" for seconds, what in waits if seconds)
    how = "itself" if fault.by_itself else fault.victim.value
    return f"{number:>7}  {recovery.service:<14} {where:<16} {how:<26} {took}" + (f" ({of_it})" if of_it else "")


def counts(counted: Mapping[str, int]) -> str:
    """Return counts on one line."""
    return ", ".join(f"{name} {times}" for name, times in counted.items())


def told_runs(runs: Mapping[str, Mapping[str, int]]) -> str:
    """Return how the runs of each service ended, on one line."""
    each = (
        f"{service} " + ", ".join(f"{n} {state.lower()}" for state, n in of.items()) for service, of in runs.items()
    )
    return "; ".join(each)


def tell_verdict(console: Console, violations: Sequence[str], *, seed: int) -> None:
    """Print the findings."""
    for violation in violations:
        console.print(violation, style="red", markup=False, soft_wrap=True)
    if violations:
        console.print(f"{len(violations)} violations; the seed is {seed}", style="red")
    else:
        console.print("nothing was lost, nothing ran twice, nothing is stuck", style="green")


def _in_order(points: Sequence[Point], counted: Mapping[Point, int]) -> dict[str, int]:
    return {name_of(point): counted.get(point, 0) for point in points}
