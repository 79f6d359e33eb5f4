"""`./dev bench [NAME ...] [--report FILE]`: measure, and hold the figures against their goals."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from bench.figure import Figure

NAMES = (
    "idle_poll",
    "s3_idle_poll",
    "ten_thousand_tables",
    "hook_endpoint",
    "hook_flood",
    "pool",
    "mix",
    "overhead",
    "hook_to_run",
    "iceberg_pool",
    "iceberg_observe",
    "iceberg_size",
    "neglected",
    "stream_copy",
)
LONG = ("many_runs", "long_history")
"""Take minutes: measured only by name."""


def main() -> int:
    """Measure what was asked for, by default all that is not long; returns 1 if a goal was missed."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(NAMES + LONG)}")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    parser.add_argument("--runs", type=int, default=500, help="of many_runs: how many (%(default)s)")
    parser.add_argument(
        "--store", choices=("local", "s3"), default="local", help="of ten_thousand_tables: where they are"
    )
    parser.add_argument("--whole", action="store_true", help="of iceberg_size: ten million files, half an hour")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in NAMES + LONG]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there is {', '.join(NAMES + LONG)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that every process is ended
    figures: list[Figure] = []
    for name in asked.names or NAMES:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        arguments = {
            "many_runs": {"runs": asked.runs},
            "ten_thousand_tables": {"store": asked.store},
            "iceberg_size": {"brief": not asked.whole},
        }.get(name, {})
        figures += importlib.import_module(f"bench.{name}").measure(**arguments)
        if asked.report is not None:
            asked.report.write_text(json.dumps([asdict(figure) for figure in figures], indent=2) + "\n")
    Console().print(_drawn(figures))
    return 0 if all(figure.met for figure in figures) else 1


def _drawn(figures: list[Figure]) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("figure", "ours", "baseline", "unit", "ratio", "goal", "met"):
        grid.add_column(heading, justify="right" if heading in ("ours", "baseline", "ratio") else "left")
    for figure in figures:
        numbers = [
            "" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
            for value in (figure.ours, figure.baseline, figure.ratio)
        ]
        met = "[green]yes[/green]" if figure.met else "[red]no[/red]"
        grid.add_row(figure.name, numbers[0], numbers[1], figure.unit, numbers[2], figure.goal, met)
    return grid


if __name__ == "__main__":
    sys.exit(main())
