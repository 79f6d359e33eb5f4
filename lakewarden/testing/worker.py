"""A session worker with the programs of the fake format and with fault points."""

from __future__ import annotations

import sys

from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.executors.worker.main import main
from lakewarden.testing import instruments
from lakewarden.testing.fake import FAKE
from lakewarden.testing.fake.programs import FAKE_PROGRAMS

if __name__ == "__main__":
    instruments.install()
    main(int(sys.argv[1]), programs={**PROGRAMS, FAKE.name: FAKE_PROGRAMS})
