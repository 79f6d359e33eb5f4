"""What a format contributes to the suite."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Protocol

from lakewarden.demo.environment import Environment
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.run import DemoRun
from live.goal import Goal
from live.scenario import LiveScenario


class Suite(Protocol):
    """One format's part."""

    @property
    def format_demo(self) -> FormatDemo:
        """The table, its first writer and its reader."""
        ...

    @property
    def commits(self) -> int:
        """The least number of commits of the writers, unless the command line names another."""
        ...

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments that only this format has."""
        ...

    def fetch(self, say: Callable[[str], None]) -> None:
        """Download the jars that the table needs."""
        ...

    def scenario(
        self, goal: Goal, asked: argparse.Namespace, environment: Environment, demo_run: DemoRun
    ) -> LiveScenario:
        """Return the scenario."""
        ...


def goal_of(asked: argparse.Namespace) -> Goal:
    """Return the goal from the arguments that every format has."""
    services: Sequence[str] | None = asked.services
    only = None if services is None else frozenset(services)
    return Goal(commits=asked.commits, minutes=asked.minutes, only=only)
