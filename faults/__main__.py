"""`./dev faults --rounds N --seed S [--writers N]`, `--replicas 2|3 --minutes 10`, `--hostile --minutes 10`;
`[--report FILE]`.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
from pathlib import Path

from faults import plot, replicas
from faults.hostile import plot as hostile
from faults.verdict import Play, perform

_SEEDS = 10**6


def main() -> int:
    """Play; returns 0 if the checker found nothing, 1 for violations, 2 if the harness failed itself."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often something is struck (default: 20)")
    parser.add_argument("--seed", type=int, help="what is dealt (default: any; it is printed)")
    parser.add_argument("--replicas", type=int, choices=(2, 3), help="several daemons on one PostgreSQL instead")
    parser.add_argument(
        "--writers", type=int, choices=range(1, 5), default=2, help="live writers, each with days of its own (2)"
    )
    parser.add_argument(
        "--hostile", action="store_true", help="hostile tables, stores and clients beside good tables instead"
    )
    parser.add_argument("--minutes", type=float, default=10, help="how long replicas and good tables stand it (10)")
    parser.add_argument("--only", action="append", default=[], help="of the hostile tables only this one, and others")
    parser.add_argument("--no-clients", action="store_true", help="without hostile clients")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    seed = random.randrange(_SEEDS) if asked.seed is None else asked.seed
    if asked.hostile:
        play: Play = functools.partial(
            hostile.play, minutes=asked.minutes, only=asked.only, clients=not asked.no_clients
        )
    elif asked.replicas is not None:
        play = functools.partial(
            replicas.play, replicas=asked.replicas, writers=asked.writers, minutes=asked.minutes, seed=seed
        )
    else:
        play = functools.partial(plot.play, rounds=asked.rounds, writers=asked.writers, seed=seed)
    return perform(seed, asked.report and asked.report.absolute(), play)


if __name__ == "__main__":
    sys.exit(main())
