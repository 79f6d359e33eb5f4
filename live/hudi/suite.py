"""The suite on Hudi: one writer of a kind and other writers that are killed in a commit, or several writers at once."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from lakewarden.demo.environment import Environment
from lakewarden.demo.formats.hudi.demo import DEMO
from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.demo.run import DemoRun
from lakewarden.executors.worker import bundles
from live.goal import Goal
from live.hudi.policies import WriterKind
from live.hudi.scenario import HudiScenario
from live.hudi.several.scenario import SeveralWritersScenario
from live.hudi.several.writer_specs import VERSIONS
from live.scenario import LiveScenario


class HudiSuite:
    """Fulfils `Suite`."""

    format_demo = DEMO
    commits = 30

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of a Hudi table."""
        parser.add_argument("--table-type", type=TableType, default=TableType.MOR, help="mor (the default) or cow")
        parser.add_argument(
            "--writer",
            type=WriterKind,
            default=WriterKind.UPSERT,
            help="upsert (the default), inline (it schedules, and Lakewarden executes) or streaming",
        )
        several = parser.add_argument_group("several writers, of several releases, with a composed record key")
        several.add_argument(
            "--writers", type=int, choices=range(1, 5), default=1, help="the number of writers, up to 4"
        )
        several.add_argument(
            "--conflicts", action="store_true", help="the writers write into the same partitions and files"
        )
        several.add_argument(
            "--waiting-clean", action="store_true", help="the first clean waits for an approval that never comes"
        )
        several.add_argument("--table-version", type=int, choices=VERSIONS, default=9, help="8 or 9 (the default)")
        several.add_argument(
            "--every", type=float, default=2.5, metavar="SECONDS", help="the time between two commits of one writer"
        )
        several.add_argument(
            "--day", type=float, default=20, metavar="SECONDS", help="the time until the next partition begins"
        )

    def fetch(self, say: Callable[[str], None]) -> None:
        """Download Hudi's bundle."""
        bundles.fetch(("hudi",), say=say)

    def scenario(
        self, goal: Goal, asked: argparse.Namespace, environment: Environment, demo_run: DemoRun
    ) -> LiveScenario:
        """Return the scenario."""
        if asked.writers > 1:
            return SeveralWritersScenario(
                goal,
                environment,
                demo_run,
                kind=asked.table_type,
                writers=asked.writers,
                conflicts=asked.conflicts,
                table_version=asked.table_version,
                every_seconds=asked.every,
                day_seconds=asked.day,
                waiting_clean=asked.waiting_clean,
            )
        return HudiScenario(goal, environment, demo_run, kind=asked.table_type, writer=asked.writer)
