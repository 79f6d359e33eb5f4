"""The arguments that every writer of the demo has."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_writer_arguments(parser: argparse.ArgumentParser, *, every: float, needs_options: bool = True) -> None:
    """Add the arguments of every writer. `every` is the default pause between two commits, in seconds.

    A writer that `needs_options` cannot be started without those of a writer beside Lakewarden.
    """
    parser.add_argument(
        "--options",
        type=Path,
        required=needs_options,
        help="the options that a writer beside Lakewarden must set: a JSON object",
    )
    parser.add_argument("--record", type=Path, required=True, help="the record of every batch and its ending")
    parser.add_argument("--seconds", type=float, help="how long, from the first commit; for ever by default")
    parser.add_argument(
        "--every", type=float, default=every, metavar="SECONDS", help="the least time between two commits"
    )
    parser.add_argument("--seed", type=int, default=0, help="which stream of batches")
