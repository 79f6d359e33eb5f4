"""A daemon without a table or a worker: what the pages of reference ask for its metrics and its routes."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.model.clock import SystemClock
from lakewarden.service.events.listener import Listener
from lakewarden.service.state.resources import Resources
from lakewarden.service.store.memory import MemoryStore
from lakewarden.service.wiring.daemon import ComposedDaemon, compose


def empty_room() -> ComposedDaemon:
    """Return a daemon that was composed, and not started."""
    return compose(
        tables=(),
        resources=Resources(pools={}, store=MemoryStore(), clock=SystemClock(), listener=Listener()),
        drain=timedelta(0),
    )
