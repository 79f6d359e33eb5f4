"""The demo's plot: a live table is kept healthy, and at the end every row is proved right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lakewarden.demo.environment import Environment
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.report import Range, ReaderTally, Report, ServiceTally, WriterTally
from lakewarden.demo.run import START_SECONDS, DemoRun, perform
from lakewarden.demo.screen import screen_on
from lakewarden.demo.snapshot import DemoState
from lakewarden.executors.worker import bundles
from lakewarden.service.model.run import RunState

_WRITER_OVERTIME_SECONDS = 120


def play(piece: FormatDemo, seconds: int, report: Path | None) -> int:
    """Play the demo of one format, with the writer writing for `seconds`, and return the exit code."""
    console = Console(highlight=False)

    def played(directory: Path, interruption: Interruption) -> int:
        with interruption.at_once():
            bundles.fetch((piece.format,), say=console.print)
        with Environment(directory, piece) as stage, screen_on(console) as screen:
            found = _acts(stage, DemoRun(stage, screen, interruption), seconds)
        if report is not None:
            found.write(report)
        _tell(console, found, piece.counted)
        return 1 if found.shortcomings() else 0

    return perform("demo", console, played)


def _acts(stage: Environment, show: DemoRun, seconds: int) -> Report:
    """Play the acts, one after another."""
    table = stage.piece.prepare(stage, show)
    daemon = stage.start_daemon(table=table, services=stage.piece.services)
    show.spectator.meet(daemon)
    writer = stage.start_writer(daemon=daemon, arguments=("--seconds", str(seconds)))
    show.watch(
        "starting the daemon, its worker and the writer",
        until=lambda scene: scene.commits > 0 and daemon.ready(),
        at_most=START_SECONDS,
    )
    stage.dismiss(writer)
    reader = stage.start_reader()
    show.watch(
        lambda scene: f"live: {min(_seconds_written(scene), seconds):.0f} of {seconds} s",
        until=lambda _: writer.exit_code is not None,
        at_most=seconds + _WRITER_OVERTIME_SECONDS,
    )
    last = show.drain(daemon)
    stage.stop_reader(reader)
    return _report(stage, show, last)


def _report(stage: Environment, show: DemoRun, last: DemoState) -> Report:
    expected = last.record.expected_rows()
    found = stage.piece.read(stage.directory)
    last = show.spectator.look(last.act)
    ends = {**found.counted, **stage.piece.count_stored(stage.directory)}
    return Report(
        rows_expected=len(expected),
        rows_found=len(found.rows),
        rows_wrong=count_wrong_rows(found.rows, expected),
        writer=WriterTally.of(last.record),
        reader=ReaderTally(queries=len(last.queries), failures=last.failed_queries),
        services=_services(last),
        counted={name: Range(peak=gauge.peak, end=ends[name]) for name, gauge in last.counts.items()},
        promised=stage.piece.promised,
    )


def _seconds_written(scene: DemoState) -> float:
    """Return the seconds since the writer's first commit."""
    first = next((batch.answered for batch in scene.record.acknowledged()), None)
    return (datetime.now(UTC) - first).total_seconds() if first else 0


def _services(scene: DemoState) -> dict[str, ServiceTally]:
    ended = Counter((run.service, run.state) for run in scene.runs)
    return {
        service: ServiceTally(succeeded=ended[service, RunState.SUCCEEDED], failed=ended[service, RunState.FAILED])
        for service in sorted({run.service for run in scene.runs})
    }


def _tell(console: Console, report: Report, words: Mapping[str, str]) -> None:
    """Print what the demo showed."""
    runs = ", ".join(
        f"{name} {tally.succeeded} succeeded, {tally.failed} failed" for name, tally in report.services.items()
    )
    files = ", ".join(f"{words[name]} {count.end} (peak {count.peak})" for name, count in report.counted.items())
    console.print(f"rows      {report.rows_expected} expected, {report.rows_found} found, {report.rows_wrong} wrong")
    console.print(f"writer    {report.writer.commits} commits, {report.writer.failures} failed")
    console.print(f"reader    {report.reader.queries} queries, {report.reader.failures} failed")
    console.print(f"services  {runs or 'none ran'}", soft_wrap=True)
    console.print(f"files     {files}", soft_wrap=True)
    shortcomings = report.shortcomings()
    for shortcoming in shortcomings:
        console.print(f"[red]{shortcoming}[/red]")
    if not shortcomings:
        console.print("[green]every row is right, and nobody was disturbed[/green]")
