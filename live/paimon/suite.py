"""The suite on Paimon: a streaming writer beside every service."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.paimon.demo import PaimonDemo
from lakewarden.demo.run import DemoRun
from lakewarden.executors.worker import bundles
from lakewarden.planners.registry import FORMATS
from live.goal import Goal
from live.paimon.policies import TABLE_OPTIONS, policies
from live.paimon.scenario import PaimonScenario
from live.scenario import LiveScenario


class EveryService(PaimonDemo):
    """The demo's table with every service."""

    services = policies(FORMATS["paimon"].services)
    promised = tuple(services)

    def entry(self, table: Path, start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Return the table's entry in the configuration, with snapshots that expire within the suite."""
        return {**super().entry(table, start_zookeeper), "options": dict(TABLE_OPTIONS)}


class PaimonSuite:
    """Fulfils `Suite`."""

    format_demo = EveryService()
    commits = 100

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add nothing: there is one kind of writer."""

    def fetch(self, say: Callable[[str], None]) -> None:
        """Download Paimon's bundle."""
        bundles.fetch(("paimon",), say=say)

    def scenario(
        self, goal: Goal, _asked: argparse.Namespace, environment: Environment, demo_run: DemoRun
    ) -> LiveScenario:
        """Return the scenario."""
        return PaimonScenario(goal, environment, demo_run)
