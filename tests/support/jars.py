"""Brings every jar that the tests need, before they begin: `python -m tests.support.jars`. No test downloads."""

from __future__ import annotations

import sys
import time

from lakewarden.executors.worker import bundles
from lakewarden.executors.worker.lines import LINE
from lakewarden.planners.model.errors import TemporaryError
from live.sqlite_driver import SQLITE

TRIES = 3
PAUSE = 10.0
"""Seconds between two tries."""


def bring_all() -> None:
    """Bring the bundles of all formats and stores, and the driver of the catalogs in SQLite.

    Raises TemporaryError if no repository has answered in three tries.
    """
    for left in reversed(range(TRIES)):
        try:
            bundles.fetch(LINE.bundles, stores=LINE.stores)
            bundles.bring(SQLITE)
        except TemporaryError as error:
            if left == 0:
                raise
            print(f"{error}: tried again in {PAUSE:.0f} s", file=sys.stderr)
            time.sleep(PAUSE)
        else:
            return


if __name__ == "__main__":
    bring_all()
