"""A session worker with the programs of the fake format and with fault points."""

from __future__ import annotations

import sys

from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.executors.worker.main import main
from tests.support.doubles import instruments
from tests.support.doubles.fake import FAKE
from tests.support.doubles.fake.programs import FAKE_PROGRAMS

if __name__ == "__main__":
    instruments.install()
    main(int(sys.argv[1]), programs={**PROGRAMS, FAKE.name: FAKE_PROGRAMS})
