"""A daemon without a table or a worker: what the pages of reference ask for its metrics and its routes."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path

from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.events import Listener
from lakewarden.service.state.daemon_state import Resources
from lakewarden.service.store.sql.sqlite import open_sqlite
from lakewarden.service.wiring.daemon import ComposedDaemon, compose


def empty_room() -> ComposedDaemon:
    """Return a daemon that was composed, and not started."""
    store = open_sqlite(Path(tempfile.mkdtemp(prefix="lakewarden-docs-")) / "empty.db")
    return compose(
        tables=(),
        resources=Resources(pools={}, store=store, clock=SystemClock(), listener=Listener()),
        drain=timedelta(0),
    )
