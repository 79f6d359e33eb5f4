"""The suite's report: the demo's, and what only the suite examines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self

from rich.console import Console
from rich.table import Table as Grid

from lakewarden.demo.report import ReaderTally, Report, ServiceTally, WriterTally
from live.journey import Journey


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """One failed commit of the writer, with the beginning of its exception."""

    at: str
    message: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveWriterTally(WriterTally):
    """`caused_by_us` are the failures that Lakewarden has caused, as the format determines it
    (`LiveScenario.caused_by_us`).
    """

    caused_by_us: int
    failed: Sequence[Failure] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveReaderTally(ReaderTally):
    """`asked_again` are the queries during which an instant was archived. They succeeded the second time."""

    asked_again: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveServiceTally(ServiceTally):
    """Ended runs of one service. Runs that found nothing to do are not counted as a success."""

    cancelled: int = 0
    idle: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class TimeTravel:
    """How many instants were read, and at which of them the rows differ from the writer's record.

    `overtaken` are the instants of writes that were in flight when a compaction was planned. Hudi does not show such a
    write at its own instant, only from the compaction's on. No row is lost, so they are reported and not counted.
    """

    instants: int
    wrong: Sequence[Journey] = ()
    overtaken: Sequence[Journey] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveReport(Report):
    """What the suite saw. `enabled` are the services that had to succeed `each_succeeds` times. `writer` is all writers
    together, `writers` each by itself. `twice` are instants that two runs of Lakewarden completed. `failed_runs` are
    its runs that failed, with their outcomes. `errors` is what kept the suite from its end.
    """

    table_type: str
    writer_kind: str
    seconds: float
    wanted_commits: int
    enabled: Collection[str]
    each_succeeds: int
    services: Mapping[str, LiveServiceTally]
    writer: LiveWriterTally
    reader: LiveReaderTally
    time_travel: TimeTravel
    writers: Mapping[str, LiveWriterTally] = field(default_factory=dict)
    twice: Sequence[str] = ()
    failed_runs: Sequence[str] = ()
    doubled_micro_batches: Sequence[int] = ()
    daemon_exit_code: int | None = 0
    processes_left: Sequence[str] = ()
    errors: Sequence[str] = ()

    @classmethod
    def of(cls, report: LiveReport, **more: Any) -> Self:
        """Return a report with further or replaced fields."""
        return cls(**{each.name: getattr(report, each.name) for each in fields(report)} | more)

    @property
    def commits(self) -> int:
        """How many commits count towards the wanted number."""
        return self.writer.commits

    def shortcomings(self) -> list[str]:
        """Return what was promised and not shown, one sentence each. Empty is success."""
        found = [*self.errors, *self.disturbances()]
        if self.commits < self.wanted_commits:
            found.append(f"{self.commits} of {self.wanted_commits} commits were made")
        for service in self.enabled:
            succeeded = self.services.get(service, LiveServiceTally()).succeeded
            if succeeded < self.each_succeeds:
                found.append(f"{service} succeeded {succeeded} of {self.each_succeeds} times")
        if not self.time_travel.instants:
            found.append("no instant was read")
        if self.time_travel.wrong:
            found.append(
                f"{len(self.time_travel.wrong)} of {self.time_travel.instants} instants do not show their rows"
            )
        found += [f"{instant} was completed twice by us" for instant in self.twice]
        found += [f"a run of ours failed: {run}" for run in self.failed_runs]
        found += [f"micro-batch {number} was committed twice" for number in self.doubled_micro_batches]
        if self.daemon_exit_code != 0:
            found.append(f"the daemon ended with {self.daemon_exit_code}")
        if self.processes_left:
            found.append(f"{len(self.processes_left)} processes were left behind: {', '.join(self.processes_left)}")
        return found

    def tell_more(self, console: Console) -> None:
        """Print the findings that only this kind of report has."""


def tell(console: Console, report: LiveReport) -> None:
    """Print the report for people."""
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("service", "succeeded", "failed", "cancelled", "idle"):
        grid.add_column(heading, justify="left" if heading == "service" else "right")
    for name in sorted({*report.enabled, *report.services}):
        tally = report.services.get(name, LiveServiceTally())
        grid.add_row(name, *map(str, (tally.succeeded, tally.failed, tally.cancelled, tally.idle)))
    console.print(f"{report.table_type} table, {report.writer_kind} writer, {report.seconds:.0f} s", style="bold")
    console.print(grid)
    writer, travelled = report.writer, report.time_travel
    counted = (f"{name} {count.end} (peak {count.peak})" for name, count in report.counted.items())
    files = ", ".join(counted).replace("_", " ")
    for line in (
        f"rows      {report.rows_expected} expected, {report.rows_found} found, {report.rows_wrong} wrong",
        f"writer    {writer.commits} commits, {writer.failures} failed, {writer.caused_by_us} of them caused by us",
        f"reader    {report.reader.queries} queries, {report.reader.failures} failed, "
        f"{report.reader.asked_again} asked again for an instant that was archived meanwhile",
        f"travel    {travelled.instants} retained instants, {len(travelled.wrong)} wrong, "
        f"{len(travelled.overtaken)} overtaken by a compaction",
        f"files     {files}",
    ):
        console.print(line, soft_wrap=True)
    for failure in writer.failed:
        console.print(f"  failed {failure.at}: {failure.message}", markup=False, soft_wrap=True)
    for journey in (*travelled.wrong, *travelled.overtaken):
        why = journey.failure or (f"overtaken by compaction {journey.overtaken}" if journey.overtaken else "")
        console.print(f"  {journey.instant} {journey.operation}: {journey.wrong} rows differ {why}", markup=False)
    report.tell_more(console)
    shortcomings = report.shortcomings()
    for shortcoming in shortcomings:
        console.print(shortcoming, style="red", markup=False, soft_wrap=True)
    if not shortcomings:
        console.print("every row is right at every instant, and no writer and no reader was disturbed", style="green")
