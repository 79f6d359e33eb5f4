"""`./dev live hudi|iceberg|paimon|directory [--commits N] [--minutes M] [--services SERVICE ...] [--report FILE]`, and
`./dev live fleet [--tables N] [--live N] [--minutes M] [--report FILE]`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from live.directory.suite import DirectorySuite
from live.fleet import run as fleet
from live.hudi.suite import HudiSuite
from live.iceberg.suite import IcebergSuite
from live.paimon.suite import PaimonSuite
from live.run import run
from live.suite import Suite

SUITES: Mapping[str, Suite] = {
    "hudi": HudiSuite(),
    "iceberg": IcebergSuite(),
    "paimon": PaimonSuite(),
    "directory": DirectorySuite(),
}

FLEET = "fleet"


def main() -> int:
    """Run the whole suite of a format. Returns 0 only if the suite saw all that it promises."""
    parser = argparse.ArgumentParser(prog="live", description=__doc__)
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT", help="one of " + ", ".join(SUITES))
    for name, suite in SUITES.items():
        _add_arguments(formats.add_parser(name), suite)
    fleet.add_arguments(formats.add_parser(FLEET, help="hundreds of tables, taken over and given back"))
    asked = parser.parse_args()
    if asked.format == FLEET:
        return fleet.run(asked)
    return run(SUITES[asked.format], asked, asked.report)


def _add_arguments(parser: argparse.ArgumentParser, suite: Suite) -> None:
    suite.add_arguments(parser)
    parser.add_argument(
        "--commits",
        type=int,
        default=suite.commits,
        help=f"the least number of commits of all writers together (default: {suite.commits})",
    )
    parser.add_argument("--services", nargs="+", metavar="SERVICE", help="only these services, for a shorter run")
    parser.add_argument(
        "--minutes", type=float, default=12, help="the suite gives up after so many minutes (default: 12)"
    )
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")


if __name__ == "__main__":
    sys.exit(main())
