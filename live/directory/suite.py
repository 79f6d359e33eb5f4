"""The suite on plain directories."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.directory.demo import DirectoryDemo
from lakewarden.demo.run import DemoRun
from live.directory.scenario import DirectoryScenario
from live.goal import Goal
from live.scenario import LiveScenario


class DirectorySuite:
    """Fulfils `Suite`."""

    format_demo = DirectoryDemo()
    commits = 150

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing."""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Do nothing: Spark reads the files by itself."""

    def scenario(
        self, goal: Goal, asked: argparse.Namespace, environment: Environment, demo_run: DemoRun
    ) -> LiveScenario:
        """Return the scenario."""
        return DirectoryScenario(goal, environment, demo_run)
