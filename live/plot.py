"""The suite's plot: a table under every service, beside a writer that must not notice; then it is looked at."""

from __future__ import annotations

from pathlib import Path

import psutil
from rich.console import Console

from lakewarden.executors.worker import bundles
from lakewarden.service.demo.interruption import Interruption
from lakewarden.service.demo.screen import screen_on
from lakewarden.service.demo.show import Show, perform
from lakewarden.service.demo.stage import Stage
from live.acts import Acts
from live.findings import findings
from live.report import LiveReport, tell
from live.script import Script


def play(script: Script, report: Path | None) -> int:
    """Play the script, write and print the report, and return the exit code."""
    console = Console(highlight=False)

    def played(directory: Path, interruption: Interruption) -> int:
        with interruption.at_once():
            bundles.fetch(("hudi",), say=console.print)
        found = _performance(script, directory, console, interruption)
        if report is not None:
            found.write(report)
        tell(console, found)
        return 1 if found.shortcomings() else 0

    return perform("live", console, played)


def _performance(script: Script, directory: Path, console: Console, interruption: Interruption) -> LiveReport:
    with Stage(directory) as stage:
        with screen_on(console) as screen:
            acts = Acts(script, stage, Show(stage, screen, interruption), directory / "streaming")
            acts.play()
        acts.end_daemon()
    with interruption.at_once():
        return findings(script, acts, table=stage.table, processes_left=left_behind(directory))


def left_behind(directory: Path) -> list[str]:
    """Return the processes that work in the directory, or are told of it: their ids and their names."""
    found = []
    for process in psutil.process_iter(["pid", "name", "cmdline", "cwd", "status"]):
        info = process.info
        told = " ".join([*(info["cmdline"] or []), info["cwd"] or ""])
        if str(directory) in told and info["status"] != psutil.STATUS_ZOMBIE:
            found.append(f"{info['pid']} {info['name']}")
    return found
