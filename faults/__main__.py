"""`./dev faults [--format hudi|iceberg|paimon|directory] --rounds N --seed S [--writers N] [--cluster]`,
`--replicas 2|3 --minutes 10`, `--hostile --minutes 10`; `[--report FILE]`.
"""

from __future__ import annotations

import argparse
import functools
import random
import sys
from pathlib import Path

from faults.formats.registry import TRIALS
from faults.hostile import scenario as hostile
from faults.trials import one_daemon, replicas
from faults.trials.verdict import Trial, run_trial

HUDI = "hudi"
_SEEDS = 10**6
_WRITERS = 2


def main() -> int:
    """Run the trial. Returns 0 if the checker found nothing, 1 for violations, 2 if the harness itself failed."""
    parser = argparse.ArgumentParser(prog="faults", description=__doc__)
    parser.add_argument("--format", choices=tuple(TRIALS), default=HUDI, help="the format of the table (default: hudi)")
    parser.add_argument("--rounds", type=int, default=20, help="the number of faults (default: 20)")
    parser.add_argument("--seed", type=int, help="the seed of the faults (default: any; it is printed)")
    parser.add_argument(
        "--replicas", type=int, choices=(2, 3), help="instead of one daemon: several daemons on one PostgreSQL"
    )
    parser.add_argument(
        "--writers",
        type=int,
        choices=range(1, 5),
        help="live writers: up to 4 on hudi, 1 on paimon, 2 on others (default: 2, or as many as there can be)",
    )
    parser.add_argument(
        "--hostile",
        action="store_true",
        help="instead of faults: hostile tables, stores and clients beside good tables",
    )
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="one daemon with executors on a standalone cluster of Spark, which is hit as well",
    )
    parser.add_argument(
        "--minutes", type=float, default=10, help="the length of a trial with replicas or hostile tables (default: 10)"
    )
    parser.add_argument("--only", action="append", default=[], help="only these hostile tables; may be repeated")
    parser.add_argument("--no-clients", action="store_true", help="without hostile clients")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")
    asked = parser.parse_args()
    if asked.cluster and (asked.hostile or asked.replicas is not None):
        parser.error("--cluster is a trial with one daemon: leave out --hostile and --replicas")
    if asked.format != HUDI and (asked.hostile or asked.replicas is not None):
        parser.error(f"--hostile and --replicas need --format {HUDI}")
    format_trial = TRIALS[asked.format]()
    writers = min(_WRITERS, format_trial.most_writers) if asked.writers is None else asked.writers
    if writers > format_trial.most_writers:
        parser.error(f"on {asked.format} there are at most {format_trial.most_writers} writers")
    seed = random.randrange(_SEEDS) if asked.seed is None else asked.seed
    if asked.hostile:
        trial: Trial = functools.partial(
            hostile.run, minutes=asked.minutes, only=asked.only, clients=not asked.no_clients
        )
    elif asked.replicas is not None:
        trial = functools.partial(
            replicas.run,
            format_trial=format_trial,
            replicas=asked.replicas,
            writers=writers,
            minutes=asked.minutes,
            seed=seed,
        )
    else:
        trial = functools.partial(
            one_daemon.run,
            format_trial=format_trial,
            rounds=asked.rounds,
            writers=writers,
            seed=seed,
            on_cluster=asked.cluster,
        )
    return run_trial(seed, asked.report and asked.report.absolute(), trial)


if __name__ == "__main__":
    sys.exit(main())
