"""The demo's plot: a live table is kept healthy, and at the end every row is proved right."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from lakewarden.executors.worker import bundles
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.service.demo.daemon import Daemon
from lakewarden.service.demo.files import count_file_versions
from lakewarden.service.demo.interruption import InterruptedDemoError, Interruption
from lakewarden.service.demo.reader import count_wrong_rows, read_snapshot
from lakewarden.service.demo.report import Range, ReaderTally, Report, ServiceTally, WriterTally
from lakewarden.service.demo.scene import Scene, Spectator
from lakewarden.service.demo.screen import Screen, screen_on
from lakewarden.service.demo.stage import Stage
from lakewarden.service.store.port import RunState

_TICK_SECONDS = 0.5
_START_SECONDS = 180
_WRITER_OVERTIME_SECONDS = 120
_DRAIN_SECONDS = 180


def play(seconds: int, report: Path | None) -> int:
    """Play the demo in a directory of its own, which stays only if something went wrong; return the exit code."""
    console = Console(highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="lakewarden-demo-"))
    code = 1
    try:
        with Interruption() as interruption:
            code = _Play(console, directory, interruption).run(seconds, report)
    except InterruptedDemoError as interrupted:
        console.print(f"ended by {interrupted}; nothing is left running")
        code = 128 + interrupted.signal
    except (LakewardenError, OSError) as trouble:
        console.print(f"the demo cannot go on: {trouble}", markup=False, soft_wrap=True)
    if code == 1:
        console.print(f"the table, the records and the logs are in {directory}", soft_wrap=True)
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return code


class _Play:
    """One performance."""

    def __init__(self, console: Console, directory: Path, interruption: Interruption) -> None:
        self._console = console
        self._directory = directory
        self._interruption = interruption

    def run(self, seconds: int, report: Path | None) -> int:
        with self._interruption.at_once():
            bundles.fetch(("hudi",), say=self._console.print)
        with Stage(self._directory) as stage, screen_on(self._console) as screen:
            found = _Acts(stage, screen, self._interruption).play(seconds)
        if report is not None:
            found.write(report)
        _tell(self._console, found)
        return 1 if found.shortcomings() else 0


class _Acts:
    """The acts, one after another; between any two looks at the stage a signal may end them."""

    def __init__(self, stage: Stage, screen: Screen, interruption: Interruption) -> None:
        self._stage = stage
        self._screen = screen
        self._interruption = interruption
        self._spectator = Spectator(stage)

    def play(self, seconds: int) -> Report:
        zookeeper = self._stage.start_zookeeper()
        self._watch("starting ZooKeeper", until=lambda _: zookeeper.ready(), at_most=_START_SECONDS)
        daemon = self._stage.start_daemon(zookeeper)
        self._spectator.meet(daemon)
        writer = self._stage.start_writer(zookeeper=zookeeper, daemon=daemon, seconds=seconds)
        self._watch(
            "starting the daemon, its worker and the writer",
            until=lambda scene: scene.commits > 0 and daemon.ready(),
            at_most=_START_SECONDS,
        )
        self._stage.dismiss(writer)
        reader = self._stage.start_reader()
        self._watch(
            lambda scene: f"live: {min(_seconds_written(scene), seconds):.0f} of {seconds} s",
            until=lambda _: writer.exit_code is not None,
            at_most=seconds + _WRITER_OVERTIME_SECONDS,
        )
        last = self._drain(daemon)
        self._stage.stop_reader(reader)
        return self._report(last)

    def _drain(self, daemon: Daemon) -> Scene:
        """Have compacted and cleaned what is left: ask for the one until no log file waits, then for the other."""
        cleaned = False

        def done(scene: Scene) -> bool:
            nonlocal cleaned
            if scene.table is None or any(_active(run.state) for run in scene.runs):
                return False
            wanted = _left_over(scene) or (None if cleaned else Service.CLEAN)
            if wanted is None:
                return True
            cleaned = not daemon.request_run(wanted) and wanted is Service.CLEAN
            return False

        return self._watch(
            "draining: the writer has stopped, the rest is compacted", until=done, at_most=_DRAIN_SECONDS
        )

    def _report(self, last: Scene) -> Report:
        expected = last.record.expected_rows()
        found = read_snapshot(self._stage.table)
        last = self._spectator.look(last.act)
        return Report(
            rows_expected=len(expected),
            rows_found=len(found.rows),
            rows_wrong=count_wrong_rows(found.rows, expected),
            writer=WriterTally(commits=last.commits, failures=len(last.record.failures())),
            reader=ReaderTally(queries=len(last.queries), failures=last.failed_queries),
            services=_services(last),
            log_files=Range(peak=last.log_files.peak, end=found.log_files),
            file_versions=Range(peak=last.file_versions.peak, end=count_file_versions(self._stage.table)),
        )

    def _watch(self, act: str | Callable[[Scene], str], *, until: Callable[[Scene], bool], at_most: float) -> Scene:
        """Show what happens until something is true. Raises TemporaryError if it is not after `at_most` seconds."""
        deadline = time.monotonic() + at_most
        scene = Scene(act="")
        while True:
            scene = self._spectator.look(act if isinstance(act, str) else act(scene))
            self._screen.show(scene)
            self._stage.check()
            if until(scene):
                return scene
            if time.monotonic() > deadline:
                raise TemporaryError(f"{scene.act}: not done after {at_most:.0f} s")
            self._interruption.pause(_TICK_SECONDS)


def _left_over(scene: Scene) -> Service | None:
    """Return the service that still has something to do: a pending plan, or log files that a query must merge."""
    services = scene.table.services if scene.table else {}
    pending = next((Service(name) for name, service in services.items() if service.pending), None)
    return pending or (Service.COMPACTION if scene.log_files.now else None)


def _seconds_written(scene: Scene) -> float:
    """Return the seconds since the writer's first commit."""
    first = next((batch.answered for batch in scene.record.acknowledged()), None)
    return (datetime.now(UTC) - first).total_seconds() if first else 0


def _active(state: str) -> bool:
    return not RunState(state).ended


def _services(scene: Scene) -> dict[str, ServiceTally]:
    ended = Counter((run.service, run.state) for run in scene.runs)
    return {
        service: ServiceTally(succeeded=ended[service, RunState.SUCCEEDED], failed=ended[service, RunState.FAILED])
        for service in sorted({run.service for run in scene.runs})
    }


def _tell(console: Console, report: Report) -> None:
    """Print what the demo showed."""
    runs = ", ".join(
        f"{name} {tally.succeeded} succeeded, {tally.failed} failed" for name, tally in report.services.items()
    )
    log_files, versions = report.log_files, report.file_versions
    console.print(f"rows      {report.rows_expected} expected, {report.rows_found} found, {report.rows_wrong} wrong")
    console.print(f"writer    {report.writer.commits} commits, {report.writer.failures} failed")
    console.print(f"reader    {report.reader.queries} queries, {report.reader.failures} failed")
    console.print(f"services  {runs or 'none ran'}")
    console.print(f"files     log files to merge {log_files.end} (peak {log_files.peak}), ", end="")
    console.print(f"file versions {versions.end} (peak {versions.peak})")
    shortcomings = report.shortcomings()
    for shortcoming in shortcomings:
        console.print(f"[red]{shortcoming}[/red]")
    if not shortcomings:
        console.print("[green]every row is right, and nobody was disturbed[/green]")
