"""The daemon's composition root: the one place that names concrete stores and pools, and the order of life and death."""

from __future__ import annotations

import os
import random
import signal
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType

from lakewarden.executors.contract import Pool
from lakewarden.executors.pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.instant import RunId
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import storage_for
from lakewarden.service.daemon import Daemon
from lakewarden.service.events import Listener, Listeners
from lakewarden.service.inbox import Inbox
from lakewarden.service.journal import Journal
from lakewarden.service.leases import DataFolder, Leases
from lakewarden.service.permits import Limits
from lakewarden.service.request import Requests
from lakewarden.service.runs import Runs
from lakewarden.service.standing import Standings
from lakewarden.service.status import Status
from lakewarden.service.store.port import Store
from lakewarden.service.store.sql import open_sqlite
from lakewarden.service.watch import Watch


@dataclass(frozen=True, kw_only=True, slots=True)
class ControlRoom:
    """A composed daemon: the control thread's object, and the daemon as others see it."""

    daemon: Daemon
    status: Status


def compose(
    *,
    tables: Sequence[Table],
    pools: Mapping[str, Pool],
    store: Store,
    clock: Clock,
    listener: Listener,
    drain: timedelta,
    formats: Mapping[str, TableFormat] = FORMATS,
    limits: Limits | None = None,
    dice: random.Random | None = None,
) -> ControlRoom:
    """Put a daemon together from its parts, starting nothing.

    `pools` are the session pools by the name of their `spark` profile.
    """
    registered = {table.id: table for table in tables}
    dice = dice or random.Random()  # noqa: S311 - jitter, not secrets
    inbox = Inbox()
    watch = Watch(formats=formats, storage_for=storage_for, clock=clock)
    standings = Standings(store=store, clock=clock, dice=dice)
    requests = Requests(
        store=store, standings=standings, clock=clock, listener=listener, new_id=lambda: RunId(uuid.uuid4().hex[:16])
    )
    runs = Runs(
        tables=registered,
        formats=formats,
        pools=pools,
        watch=watch,
        store=store,
        leases=Leases(store),
        standings=standings,
        clock=clock,
        listener=listener,
        limits=limits or Limits(),
        owner=f"{socket.gethostname()}:{os.getpid()}",
        settled=inbox.mark_dirty,
    )
    daemon = Daemon(
        tables=registered,
        watch=watch,
        requests=requests,
        runs=runs,
        standings=standings,
        pools=pools,
        inbox=inbox,
        clock=clock,
        listener=listener,
        dice=dice,
        drain=drain,
    )
    status = Status(
        tables=registered,
        locations={table.location: table.id for table in tables},
        daemon=daemon,
        watch=watch,
        requests=requests,
        runs=runs,
        standings=standings,
        store=store,
        pools=pools,
        inbox=inbox,
        clock=clock,
    )
    return ControlRoom(daemon=daemon, status=status)
