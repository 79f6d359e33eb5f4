"""The daemon, with session workers that time the Hudi calls."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NoReturn

from lakewarden.service.process.last_resort import leave
from lakewarden.service.wiring.serving import serve


def main() -> NoReturn:
    """Run it as `lakewarden serve` does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=["serve"])
    parser.add_argument("--config", type=Path, required=True)
    leave(serve(parser.parse_args().config, worker=(sys.executable, "-m", "bench.runs.timed_worker")))


if __name__ == "__main__":
    main()
