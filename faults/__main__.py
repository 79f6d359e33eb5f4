"""`./dev faults --rounds N --seed S [--report FILE]`."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from faults.plot import Asked, play

_SEEDS = 10**6


def main() -> int:
    """Play the rounds; returns 0 if the checker found nothing, 1 for violations, 2 if the harness failed itself."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20, help="how often something is struck (default: 20)")
    parser.add_argument("--seed", type=int, help="what is dealt (default: any; it is printed)")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    seed = random.randrange(_SEEDS) if asked.seed is None else asked.seed
    return play(Asked(rounds=asked.rounds, seed=seed, report=asked.report and asked.report.absolute()))


if __name__ == "__main__":
    sys.exit(main())
