"""The session pools that the tables of a configuration need."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import structlog

from lakewarden.executors.contract import Pool, WorkerEnd
from lakewarden.executors.pool.listening import RunLogs, WorkerLine
from lakewarden.executors.pool.session_pool import WorkerPool
from lakewarden.executors.profile import SparkProfile
from lakewarden.executors.registry import ON_SPARK
from lakewarden.executors.worker import bundles
from lakewarden.planners.model.table import Mode, Table
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.storage.settings import StoreSettings, setting_of
from lakewarden.service.events import Sampler

log = structlog.get_logger(__name__)

RUNS_ON_S3 = 50
"""A worker with a table on S3 is replaced after so many runs. Its connections stay open until the JVM ends
(docs/object_stores.md).
"""


LINES_A_MINUTE = 3000
"""How many lines a minute of one worker are logged. Its file has the others."""


def pools_of(
    profiles: Mapping[str, SparkProfile],
    tables: Sequence[Table],
    stores: Sequence[StoreSettings],
    *,
    directory: Path,
    worker: Sequence[str],
    restarted: Callable[[str, WorkerEnd], None] = lambda _profile, _reason: None,
    follow: bool = False,
    logs: RunLogs | None = None,
) -> dict[str, Pool]:
    """Return a pool for each profile that a table with mode `act` uses. Other pools would only occupy memory.

    `worker` is the command that starts a session worker. `restarted` gets the profile of a worker that ended, and why.
    `follow`: the lines of the workers are logged. `logs` gets the lines of each run.
    """
    pools: dict[str, Pool] = {}
    for name, wanted in served_by(tables, stores).items():
        storage, needs = list(wanted.storage), sorted(wanted.needs)
        schemes = {store.scheme for store in storage}
        bundles.fetch(
            profiles[name].formats,
            say=lambda what: log.info("fetching_bundle", what=what),
            stores=schemes,
            needs=needs,
        )
        profile = profiles[name]
        if "s3" in schemes:
            profile = profile.model_copy(update={"recycle_after": min(profile.recycle_after, RUNS_ON_S3)})
        pools[name] = WorkerPool(
            profile,
            directory=directory / "workers" / name,
            storage=storage,
            needs=needs,
            command=worker,
            restarted=partial(restarted, name),
            line=_Lines(name) if follow else None,
            logs=logs,
        )
    return pools


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerReach:
    """What the workers of a profile can reach: stores, formats, and what the catalogs of their tables need besides."""

    storage: tuple[StoreSettings, ...]
    needs: frozenset[str]
    formats: frozenset[str]

    def covers(self, other: WorkerReach) -> bool:
        """Return whether the workers reach all that the other ones reach."""
        stores = all(store in self.storage for store in other.storage)
        return stores and other.needs <= self.needs and other.formats <= self.formats


def served_by(tables: Sequence[Table], stores: Sequence[StoreSettings]) -> Mapping[str, WorkerReach]:
    """Return what each profile must reach for the tables with mode `act` that use it."""
    served = [table for table in tables if table.mode is Mode.ACT and table.policies]
    wanted = {}
    for name in sorted({name for table in served for name in table.profiles()}):
        all_stores = [store for table in served if name in table.profiles() for store in _stores_of(table, stores)]
        storage = tuple(store for number, store in enumerate(all_stores) if store not in all_stores[:number])
        needs = frozenset(need for table in served if name in table.profiles() for need in _needs_of(table))
        formats = frozenset(table.format for table in served if name in table.profiles())
        wanted[name] = WorkerReach(storage=storage, needs=needs, formats=formats & frozenset(ON_SPARK))
    return wanted


class _Lines:
    """Logs the lines of the workers of one profile, a bounded number of them a minute."""

    def __init__(self, profile: str) -> None:
        self._profile = profile
        self._sampler = Sampler(per_minute=LINES_A_MINUTE)

    def __call__(self, line: WorkerLine) -> None:
        """Log one line, with its run, and with the number of lines that were left out before it.

        The tag of the Spark jobs of a run is the id of the run.
        """
        withheld = self._sampler.admit(line.worker)
        if withheld is None:
            return
        log_line, run = line.line, line.about
        fields = {
            "said_at": log_line.at,
            "said_by": log_line.source,
            "said_level": log_line.level,
            "logger": log_line.logger,
            "run": run and run.run,
            "table": run and run.table,
            "service": run and run.service.value,
            "epoch": run and run.epoch,
            "instant": log_line.fields.get("instant") or (run and run.instant),
            "spark_job_tag": run and run.run,
            "withheld": withheld or None,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        log.info("worker_line", spark=self._profile, worker=line.worker, line=log_line.message, **given)


def _needs_of(table: Table) -> Collection[str]:
    """Return what Spark needs for the table's catalog besides the bundle of the format."""
    needs: Collection[str] = getattr(table.catalog, "needs", ())  # catalogs of other formats need nothing
    return needs


def _stores_of(table: Table, stores: Sequence[StoreSettings]) -> Sequence[StoreSettings]:
    """Return the settings of the stores that may have files of a table. A table of a catalog may use any of them."""
    if is_in_catalog(table.location):
        return stores
    store = setting_of(table.location, stores)
    return [] if store is None else [store]
