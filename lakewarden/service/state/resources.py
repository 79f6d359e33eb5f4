"""The parts that a daemon is built on: those that exist before it, and those that it asks."""

from __future__ import annotations

import random
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field

from lakewarden.executors.contract import Pool
from lakewarden.executors.pool.run_logs import RunLogs
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.service.events.listener import Listener
from lakewarden.service.state.readers.archives import ArchiveReaders
from lakewarden.service.state.readers.port import TableReaders
from lakewarden.service.state.readers.threads import PlacedThreads, Threads
from lakewarden.service.store.port import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """`pools` are the session pools by the name of their `spark` profile. `readers` observe tables. Without readers the
    control thread observes them. `archives` read archived timelines. `threads` list catalogs.
    `run_logs` are the logs of the runs that this daemon has carried out.
    """

    pools: MutableMapping[str, Pool]
    store: Store
    clock: Clock
    listener: Listener
    formats: Mapping[str, TableFormat] = field(default_factory=lambda: FORMATS)
    storages: Storages = field(default_factory=Storages)
    readers: TableReaders | None = None
    archives: ArchiveReaders = field(default_factory=ArchiveReaders)
    threads: Threads = field(default_factory=PlacedThreads)
    run_logs: RunLogs | None = None
    rng: random.Random = field(default_factory=random.Random)
