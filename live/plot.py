"""The suite's plot: a table under every service, beside a writer that must not notice; then it is looked at."""

from __future__ import annotations

import argparse
from pathlib import Path

import psutil
from rich.console import Console

from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.run import DemoRun, perform
from lakewarden.demo.screen import screen_on
from live.findings import findings
from live.report import LiveReport, tell
from live.suite import Suite, script_of


def play(suite: Suite, asked: argparse.Namespace, report: Path | None) -> int:
    """Play what was asked, write and print the report, and return the exit code."""
    console = Console(highlight=False)

    def played(directory: Path, interruption: Interruption) -> int:
        with interruption.at_once():
            suite.fetch(console.print)
        found = _performance(suite, asked, directory, console, interruption)
        if report is not None:
            found.write(report)
        tell(console, found)
        return 1 if found.shortcomings() else 0

    return perform("live", console, played)


def _performance(
    suite: Suite, asked: argparse.Namespace, directory: Path, console: Console, interruption: Interruption
) -> LiveReport:
    with Environment(directory, suite.piece) as stage:
        with screen_on(console) as screen:
            acts = suite.acts(script_of(asked), asked, stage, DemoRun(stage, screen, interruption))
            acts.play()
        acts.end_daemon()
    with interruption.at_once():
        return acts.told(findings(acts, processes_left=left_behind(directory)))


def left_behind(directory: Path) -> list[str]:
    """Return the processes that work in the directory, or are told of it: their ids and their names."""
    found = []
    for process in psutil.process_iter(["pid", "name", "cmdline", "cwd", "status"]):
        info = process.info
        told = " ".join([*(info["cmdline"] or []), info["cwd"] or ""])
        if str(directory) in told and info["status"] != psutil.STATUS_ZOMBIE:
            found.append(f"{info['pid']} {info['name']}")
    return found
