"""`./dev live fleet [--tables 800] [--minutes 10] [--report FILE]`."""

from __future__ import annotations

import argparse
from datetime import timedelta
from pathlib import Path

from rich.console import Console

from lakewarden.demo.daemon import free_port
from lakewarden.demo.interruption import Interruption
from lakewarden.demo.run import run_in_directory
from lakewarden.executors.worker import bundles
from live.fleet.kinds import fleet
from live.fleet.making.lake import running_lake
from live.fleet.operator import Operator
from live.fleet.proof import Proof
from live.iceberg.catalog_demo import driver


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--tables", type=int, default=800, help="how many tables the lake has (default: 800)")
    parser.add_argument("--live", type=int, default=4, help="tables with a writer, of each home (default: 4)")
    parser.add_argument("--minutes", type=float, default=10, help="so long the tables are served at most (default: 10)")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")


def run(asked: argparse.Namespace) -> int:
    """Make the lake, carry out the proof, and return the exit code."""
    console = Console(highlight=False)

    def prove(directory: Path, interruption: Interruption) -> int:
        def say(text: str) -> None:
            console.print(text, markup=False)

        with interruption.at_once():
            bundles.fetch(("hudi", "iceberg"), say=say)
            jar = driver(say)
            user = directory / "operator"
            user.mkdir()
            with running_lake(directory / "lake", fleet(asked.tables, live=asked.live), say) as lake:
                operator = Operator(user, free_port())
                served_for = timedelta(minutes=asked.minutes)
                found = Proof(lake, operator, str(jar), served_for, say).run()
        if asked.report is not None:
            found.write(asked.report)
        found.tell(console)
        return 1 if found.shortcomings() else 0

    return run_in_directory("live", console, prove)
