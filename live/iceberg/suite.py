"""The suite on Iceberg: an appender and a MERGE/DELETE writer beside every service, or every kind of writer."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakewarden.demo.environment import Environment
from lakewarden.demo.run import DemoRun
from lakewarden.executors.worker import bundles
from live.goal import Goal
from live.iceberg.catalog_demo import CatalogDemo, driver
from live.iceberg.scenario import IcebergScenario
from live.iceberg.together.scenario import TogetherScenario
from live.scenario import LiveScenario


class IcebergSuite:
    """Fulfils `Suite`."""

    format_demo = CatalogDemo()
    commits = 150

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument that selects the writers."""
        parser.add_argument(
            "--writers",
            choices=("two", "all"),
            default="two",
            help="two (an appender and MERGE/DELETE, the default), or all: these and an upsert job, staged commits, "
            "branches, a table that is renamed, a sink with marks, an incremental reader, and two streams of Spark",
        )

    def fetch(self, say: Callable[[str], None]) -> None:
        """Download Iceberg's bundle and the driver of the catalog's database."""
        bundles.fetch(("iceberg",), say=say)
        driver(say)

    def scenario(
        self, goal: Goal, asked: argparse.Namespace, environment: Environment, demo_run: DemoRun
    ) -> LiveScenario:
        """Return the scenario."""
        return (TogetherScenario if asked.writers == "all" else IcebergScenario)(goal, environment, demo_run)
