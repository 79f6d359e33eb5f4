"""`python -m tests.support.doubles.serve --config FILE`: the daemon with the fake format and with fault points.

It has the parts of `lakewarden serve`. Only its formats and the commands of its child processes are different.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from lakewarden.service.process.last_resort import leave
from lakewarden.service.wiring.serving import serve
from tests.support.doubles import READER, WORKER, instruments
from tests.support.doubles.formats import TEST_FORMATS


def main() -> NoReturn:
    """Run the daemon until a signal ends it."""
    parser = argparse.ArgumentParser(prog="tests.support.doubles.serve", description=__doc__)
    parser.add_argument("--config", type=Path, required=True, help="the configuration file")
    config: Path = parser.parse_args().config
    instruments.install()
    leave(serve(config, formats=TEST_FORMATS, worker=WORKER, reader=READER))


if __name__ == "__main__":
    main()
