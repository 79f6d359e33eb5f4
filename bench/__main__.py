"""`./dev bench [NAME ...] [--times N] [--report FILE] [--against FILE]`: measure, and compare with the goals.

With `--brief`, every bench measures on as little as it can. The figures then show that the benches work, and nothing
else.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from bench.figure import Figure, joined, worse

_ROOMS = {
    "idle_poll": "polling",
    "s3_idle_poll": "polling",
    "ten_thousand_tables": "polling",
    "shared_tables": "polling",
    "growth": "polling",
    "hook_endpoint": "hooks",
    "hook_flood": "hooks",
    "pool": "runs",
    "one_application": "runs",
    "mix": "runs",
    "overhead": "runs",
    "hook_to_run": "hooks",
    "iceberg_pool": "runs",
    "paimon_pool": "runs",
    "directory_compaction": "runs",
    "iceberg_observe": "observing",
    "iceberg_size": "observing",
    "paimon_observe": "observing",
    "directory_observe": "observing",
    "hudi_size": "observing",
    "neglected": "observing",
    "stream_copy": "runs",
    "many_runs": "runs",
    "long_history": "store",
}
"""Each bench with the folder of its module."""

LONG = ("growth", "many_runs", "long_history", "directory_observe")
"""These take minutes. They are measured only by name, or in brief."""

NAMES = tuple(name for name in _ROOMS if name not in LONG)
EVERYTHING = NAMES + LONG


def main() -> int:
    """Measure the named benches, by default all that are not long. Returns 1 if a goal was missed or, in brief, if a
    bench gave no figure. With `--against` it returns 1 if a figure is worse than the last.
    """
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"what to measure: {', '.join(EVERYTHING)}")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    parser.add_argument("--times", type=int, default=1, help="measure each bench so often, for a median and a range")
    parser.add_argument(
        "--against", type=Path, help="fail if a figure is worse than in this file by more than its range"
    )
    parser.add_argument("--runs", type=int, default=500, help="of many_runs: the number of runs (%(default)s)")
    parser.add_argument(
        "--store", choices=("local", "s3"), default="local", help="of ten_thousand_tables: where the tables are"
    )
    parser.add_argument(
        "--whole", action="store_true", help="of iceberg_size: ten million files, which takes half an hour"
    )
    parser.add_argument("--brief", action="store_true", help="measure on as little as possible; no goal is judged")
    asked = parser.parse_args()
    unknown = [name for name in asked.names if name not in EVERYTHING]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there is {', '.join(EVERYTHING)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that every process is ended
    figures: list[Figure] = []
    broken: list[str] = []
    for name in asked.names or (EVERYTHING if asked.brief else NAMES):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        arguments = {
            "many_runs": {"runs": asked.runs},
            "ten_thousand_tables": {"store": asked.store},
            "iceberg_size": {"whole": asked.whole},
        }.get(name, {})
        begun = time.monotonic()
        try:
            figures += _measured(name, {**arguments, "brief": asked.brief}, times=asked.times)
        except Exception:
            if not asked.brief:
                raise
            traceback.print_exc()
            broken.append(name)
        print(f"measured {name} in {time.monotonic() - begun:.0f} s", file=sys.stderr, flush=True)
        if asked.report is not None:
            asked.report.write_text(json.dumps(reported(figures), indent=2) + "\n")
    Console().print(_drawn(figures, judged=not asked.brief))
    if asked.brief:
        print("\n".join(f"{name} gave no figure" for name in broken), end="\n" if broken else "", file=sys.stderr)
        return 1 if broken else 0
    if asked.against is not None:
        last = {record["name"]: record for record in json.loads(asked.against.read_text(encoding="utf-8"))}
        sentences = [told for one in figures if (told := worse(one, last.get(one.name, {}))) is not None]
        print("\n".join(sentences or ["no figure is worse than the last by more than its range"]))
        return 1 if sentences else 0
    return 0 if all(figure.met for figure in figures) else 1


def module_of(name: str) -> str:
    """Return the module that measures a bench."""
    return f"bench.{_ROOMS[name]}.{name}"


def reported(figures: list[Figure]) -> list[dict[str, Any]]:
    """Return figures as the report has them, each with the day, the revision and the machine."""
    git = ("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD")
    revision = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    about = {
        "measured": datetime.now(UTC).date().isoformat(),
        "revision": revision,
        "machine": f"{platform.system()} {platform.machine()} with {os.cpu_count()} cores",
    }
    return [{**asdict(figure), **about} for figure in figures]


def _measured(name: str, arguments: Mapping[str, Any], *, times: int) -> list[Figure]:
    """Return the figures of one bench. Raises RuntimeError if it has none, or one that is no number."""
    measured: dict[str, list[Figure]] = {}
    for _ in range(times):
        figures: list[Figure] = importlib.import_module(module_of(name)).measure(**arguments)
        if not figures or not all(math.isfinite(figure.ours) for figure in figures):
            raise RuntimeError(f"{name} gave no figure: {figures}")
        for figure in figures:
            measured.setdefault(figure.name, []).append(figure)
    return [joined(of_one) if times > 1 else of_one[0] for of_one in measured.values()]


def _drawn(figures: list[Figure], *, judged: bool) -> Grid:
    grid = Grid(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for heading in ("figure", "ours", "baseline", "unit", "ratio", "goal", "met"):
        grid.add_column(heading, justify="right" if heading in ("ours", "baseline", "ratio") else "left")
    for figure in figures:
        numbers = [
            "" if value is None else f"{value:,.3g}" if value < 1000 else f"{value:,.0f}"
            for value in (figure.ours, figure.baseline, figure.ratio)
        ]
        met = ("[green]yes[/green]" if figure.met else "[red]no[/red]") if judged else ""
        grid.add_row(figure.name, numbers[0], numbers[1], figure.unit, numbers[2], figure.goal, met)
    return grid


if __name__ == "__main__":
    sys.exit(main())
