"""Replacements that tests, `faults` and benches use. No process of production imports this package.

The package has a fake format and a fake pool, which pass the contract suites of the real ones. It also has faults at
the points of a run, and a witness of the steps of a run. Processes with these replacements have modules of their own:

    python -m tests.support.doubles.serve --config FILE      lakewarden serve
    python -m tests.support.doubles.worker DESCRIPTOR        a session worker, as that daemon starts it
    python -m tests.support.doubles.reader SOCKET ...        a process that reads tables, as that daemon starts it
"""

from __future__ import annotations

import sys

DAEMON = (sys.executable, "-m", "tests.support.doubles.serve")
WORKER = (sys.executable, "-m", "tests.support.doubles.worker")
READER = (sys.executable, "-m", "tests.support.doubles.reader")
"""The command that starts each process. Its arguments follow."""
