"""The command line, with session workers that time the Hudi calls."""

from __future__ import annotations

import sys

from lakewarden import cli
from lakewarden.executors.pool import process


def main() -> int:
    """Run one command."""
    process._COMMAND = (sys.executable, "-m", "bench.timed_worker")  # noqa: SLF001 - a stopwatch has no setting
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
