"""The course of the demo: Lakewarden services a live table, and at the end every row is proved right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.reader import count_wrong_rows
from lakewarden.demo.registry import demo_of
from lakewarden.demo.report import Range, ReaderTally, Report, ServiceTally, WriterTally
from lakewarden.demo.run import START_SECONDS, DemoRun, run_in_directory
from lakewarden.demo.screen import Screen
from lakewarden.demo.snapshot import DemoState
from lakewarden.executors.worker import bundles
from lakewarden.service.model.run import RunState

_WRITER_OVERTIME_SECONDS = 120


def run(format_name: str, seconds: int, report: Path | None) -> int:
    """Run the demo of a format and return the exit code. The writer writes for `seconds` from its first commit.

    0: every row is right, no commit of the writer and no query of the reader failed, and each service that the demo
    promises succeeded. 1: one of these is false, or the demo did not reach its end. 128 + the signal's number after
    Ctrl-C or SIGTERM. No process is left behind in any case. Must be called in the main thread, for the signals.
    """
    format_demo = demo_of(format_name)
    console = Console(highlight=False)

    def run_demo(directory: Path, interruption: Interruption) -> int:
        with interruption.at_once():
            bundles.fetch((format_demo.format,), say=console.print)
        with Environment(directory, format_demo) as environment:
            outcome = _run(environment, DemoRun(environment, Screen(console), interruption), seconds)
        if report is not None:
            outcome.write(report)
        _tell(console, outcome, format_demo.counted)
        return 1 if outcome.shortcomings() else 0

    return run_in_directory("demo", console, run_demo)


def _run(environment: Environment, demo_run: DemoRun, seconds: int) -> Report:
    """Run the steps, one after another."""
    daemon = environment.start_daemon(table=demo_run.table_entry(), services=environment.format_demo.services)
    demo_run.observer.meet(daemon)
    writer = environment.start_writer(daemon=daemon, arguments=("--seconds", str(seconds)))
    demo_run.watch(
        "starting the daemon, its worker and the writer",
        until=lambda state: state.commits > 0 and daemon.ready(),
        at_most=START_SECONDS,
    )
    environment.expect_end(writer)
    reader = environment.start_reader()
    demo_run.watch(
        lambda state: f"live: {min(_seconds_written(state), seconds):.0f} of {seconds} s",
        until=lambda _: writer.exit_code is not None,
        at_most=seconds + _WRITER_OVERTIME_SECONDS,
    )
    last = demo_run.drain(daemon)
    environment.stop_reader(reader)
    return _report(environment, demo_run, last)


def _report(environment: Environment, demo_run: DemoRun, last: DemoState) -> Report:
    expected = last.record.expected_rows()
    contents = environment.format_demo.read(environment.directory)
    last = demo_run.observer.look(last.phase)
    ends = {**contents.counted, **environment.format_demo.count_stored(environment.directory)}
    return Report(
        rows_expected=len(expected),
        rows_found=len(contents.rows),
        rows_wrong=count_wrong_rows(contents.rows, expected),
        writer=WriterTally.of(last.record),
        reader=ReaderTally(queries=len(last.queries), failures=last.failed_queries),
        services=_services(last),
        counted={name: Range(peak=gauge.peak, end=ends[name]) for name, gauge in last.counts.items()},
        promised=environment.format_demo.promised,
    )


def _seconds_written(state: DemoState) -> float:
    """Return the seconds since the writer's first commit."""
    first = next((batch.answered for batch in state.record.acknowledged()), None)
    return (datetime.now(UTC) - first).total_seconds() if first else 0


def _services(state: DemoState) -> dict[str, ServiceTally]:
    ended = Counter((run.service, run.state) for run in state.runs)
    return {
        service: ServiceTally(succeeded=ended[service, RunState.SUCCEEDED], failed=ended[service, RunState.FAILED])
        for service in sorted({run.service for run in state.runs})
    }


def _tell(console: Console, report: Report, words: Mapping[str, str]) -> None:
    """Print the result of the demo."""
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
        console.print("[green]every row is right, and no writer and no reader was disturbed[/green]")
