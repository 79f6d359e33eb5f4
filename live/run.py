"""The course of the suite: a table under every service, beside a writer that must not notice. At the end the table is
examined.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import psutil
from rich.console import Console

from lakewarden.demo.environment import Environment
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.run import DemoRun, run_in_directory
from lakewarden.demo.screen import Screen
from live.findings import findings
from live.report import LiveReport, tell
from live.suite import Suite, goal_of


def run(suite: Suite, asked: argparse.Namespace, report: Path | None) -> int:
    """Run the scenario, write and print the report, and return the exit code."""
    console = Console(highlight=False)

    def run_suite(directory: Path, interruption: Interruption) -> int:
        with interruption.at_once():
            suite.fetch(console.print)
        found = _run_suite(suite, asked, directory, console, interruption)
        if report is not None:
            found.write(report)
        tell(console, found)
        return 1 if found.shortcomings() else 0

    return run_in_directory("live", console, run_suite)


def _run_suite(
    suite: Suite, asked: argparse.Namespace, directory: Path, console: Console, interruption: Interruption
) -> LiveReport:
    with Environment(directory, suite.format_demo) as environment:
        demo_run = DemoRun(environment, Screen(console), interruption)
        scenario = suite.scenario(goal_of(asked), asked, environment, demo_run)
        scenario.run()
        scenario.end_daemon()
    with interruption.at_once():
        return scenario.told(findings(scenario, processes_left=left_behind(directory)))


def left_behind(directory: Path) -> list[str]:
    """Return the processes that work in the directory or have it among their arguments: their ids and their names."""
    found = []
    for process in psutil.process_iter(["pid", "name", "cmdline", "cwd", "status"]):
        info = process.info
        told = " ".join([*(info["cmdline"] or []), info["cwd"] or ""])
        if str(directory) in told and info["status"] != psutil.STATUS_ZOMBIE:
            found.append(f"{info['pid']} {info['name']}")
    return found
