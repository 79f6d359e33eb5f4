"""`./dev faults --rounds N --seed S`, or `./dev faults --replicas 2|3 --minutes 10`, with `[--report FILE]`."""

from __future__ import annotations

import argparse
import functools
import random
import sys
from pathlib import Path

from faults import plot, replicas
from faults.verdict import perform

_SEEDS = 10**6


def main() -> int:
    """Play; returns 0 if the checker found nothing, 1 for violations, 2 if the harness failed itself."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often something is struck (default: 20)")
    parser.add_argument("--seed", type=int, help="what is dealt (default: any; it is printed)")
    parser.add_argument("--replicas", type=int, choices=(2, 3), help="several daemons on one PostgreSQL instead")
    parser.add_argument("--minutes", type=float, default=10, help="how long replicas are struck (default: 10)")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    seed = random.randrange(_SEEDS) if asked.seed is None else asked.seed
    play = (
        functools.partial(plot.play, rounds=asked.rounds, seed=seed)
        if asked.replicas is None
        else functools.partial(replicas.play, replicas=asked.replicas, minutes=asked.minutes, seed=seed)
    )
    return perform(seed, asked.report and asked.report.absolute(), play)


if __name__ == "__main__":
    sys.exit(main())
