"""`./dev live hudi|iceberg [--commits N] [--minutes M] [--services SERVICE ...] [--report FILE]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from live.hudi.suite import HudiSuite
from live.iceberg.suite import IcebergSuite
from live.plot import play
from live.suite import Suite

SUITES: Mapping[str, Suite] = {"hudi": HudiSuite(), "iceberg": IcebergSuite()}


def main() -> int:
    """Play the whole suite of a format; returns 0 only if all that it promises was seen."""
    parser = argparse.ArgumentParser(prog="live", description=__doc__)
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT", help="hudi or iceberg")
    for name, suite in SUITES.items():
        _add_arguments(formats.add_parser(name), suite)
    asked = parser.parse_args()
    return play(SUITES[asked.format], asked, asked.report)


def _add_arguments(parser: argparse.ArgumentParser, suite: Suite) -> None:
    suite.add_arguments(parser)
    parser.add_argument(
        "--commits",
        type=int,
        default=suite.commits,
        help=f"the least commits of all writers together (default: {suite.commits})",
    )
    parser.add_argument("--services", nargs="+", metavar="SERVICE", help="these alone, for a shorter look")
    parser.add_argument("--minutes", type=float, default=12, help="when to give up (default: 12)")
    parser.add_argument("--report", type=Path, help="write the figures to this file, as JSON")


if __name__ == "__main__":
    sys.exit(main())
