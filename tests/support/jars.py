"""Brings every jar that the tests need, before they begin: `python -m tests.support.jars`. No test downloads."""

from __future__ import annotations

import sys
import time

from lakewarden.executors.registry import ON_SPARK
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.errors import TemporaryError
from tests.support.catalogs.databases import drivers

TRIES = 3
PAUSE = 10.0
"""Seconds between two tries."""


def bring_all() -> None:
    """Bring the bundles of all formats, stores and clients, and the drivers of all catalogs in databases.

    Raises TemporaryError if no repository has answered in three tries.
    """
    needs = sorted({need for table_format in ON_SPARK.values() for need in table_format.clients})
    for left in reversed(range(TRIES)):
        try:
            bundles.fetch(ON_SPARK, stores=bundles.STORES, needs=needs)
            drivers()
        except TemporaryError as error:
            if left == 0:
                raise
            print(f"{error}: tried again in {PAUSE:.0f} s", file=sys.stderr)
            time.sleep(PAUSE)
        else:
            return


if __name__ == "__main__":
    bring_all()
