"""The tables in force: those of the configuration, and those that are registered over the API."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakewarden.executors.contract import Pool
from lakewarden.executors.profile import SparkProfile
from lakewarden.planners.model.table import Mode, Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.planners.storage import Storages
from lakewarden.service.config.loading import Config
from lakewarden.service.config.registering import Base, base_of, made_of, with_spark
from lakewarden.service.control.discovery import sources_of
from lakewarden.service.model.registrations import RegistrationRow
from lakewarden.service.rules.registering import beside
from lakewarden.service.wiring.daemon import Offer
from lakewarden.service.wiring.pools import WorkerReach, served_by

PoolsOf = Callable[[Sequence[Table], Mapping[str, SparkProfile]], dict[str, Pool]]
"""Makes the pools for tables with these profiles."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tables:
    """A configuration with the registered tables under it. `left_out` says why a registered table is not served."""

    config: Config
    base: Base
    registered: Sequence[Table] = ()
    left_out: Mapping[TableId, str] = field(default_factory=dict)

    @property
    def listed(self) -> Sequence[Table]:
        """Return every table with an entry of its own."""
        return (*self.config.tables, *self.registered)

    @property
    def known(self) -> Sequence[Table]:
        """Return every table with an entry of its own, and one for each pattern."""
        return (*self.listed, *(discover.any_table for discover in self.config.discover))


def tables_of(
    config: Config,
    values: Mapping[str, Any],
    file: Path,
    rows: Sequence[RegistrationRow],
    *,
    formats: Mapping[str, TableFormat],
) -> Tables:
    """Return a configuration with the registered tables under it. `values` is its document."""
    base = base_of(config, values, file)
    config = replace(config, settings=config.settings.model_copy(update={"tables": ()}))
    return with_rows(Tables(config=config, base=base), rows, formats=formats)


def with_rows(tables: Tables, rows: Sequence[RegistrationRow], *, formats: Mapping[str, TableFormat]) -> Tables:
    """Return the tables with these registrations in place of their former ones."""
    changed = {row.table for row in rows}
    rows = [row for row in rows if row.entry is not None]
    made = made_of([json.loads(row.entry or "") for row in rows], tables.base, formats=formats)
    kept = [table for table in tables.registered if table.id not in changed]
    fit, unfit = beside([table for table in made.tables if table is not None], others=(*tables.config.tables, *kept))
    unmade = {row.table: "; ".join(why) for row, why in zip(rows, made.problems, strict=True) if why}
    left_out = {id_: why for id_, why in tables.left_out.items() if id_ not in changed}
    settings = tables.config.settings.model_copy(update={"spark": dict(with_spark(tables.config, made))})
    return replace(
        tables,
        config=replace(tables.config, settings=settings),
        registered=(*kept, *fit),
        left_out={**left_out, **unmade, **{TableId(id_): why for id_, why in unfit.items()}},
    )


class TablesInForce:
    """Puts tables in force. One thread at a time may hold `lock`, and only it calls the other methods."""

    def __init__(
        self,
        tables: Tables,
        *,
        storages: Storages,
        served: Mapping[str, WorkerReach],
        pools_of: PoolsOf,
        offer: Offer,
    ) -> None:
        """Take what is in force. `served` says what each pool was started for.

        `offer` hands everything to the control thread.
        """
        self.lock = threading.RLock()
        self.now = tables
        self._storages = storages
        self._served = dict(served)
        self._pools_of = pools_of
        self._offer = offer
        self._new: dict[str, Pool] = {}

    def unserved(self, tables: Tables) -> list[str]:
        """Return the profiles with workers that were started for other stores or catalogs than are needed now."""
        profiles = []
        for name, needed in served_by(tables.known, tables.config.settings.storage).items():
            there = self._served.get(name)
            if there is not None and not there.covers(needed):
                profiles.append(
                    f"the workers of spark.{name} were started without the stores, catalogs or formats "
                    "of the new tables: restart the daemon, or give these tables another profile"
                )
        return profiles

    def prepare(self, tables: Tables) -> None:
        """Make the pools that tables need. Raises PermanentError and TemporaryError if workers cannot be had."""
        settings = tables.config.settings
        needed = served_by(tables.known, settings.storage)
        lacking = [
            table
            for table in tables.known
            if table.mode is Mode.ACT and any(name not in self._served for name in table.profiles())
        ]
        pools = self._pools_of(lacking, settings.spark) if lacking else {}
        new = {name: pool for name, pool in pools.items() if name not in self._served}
        formats = {name: frozenset(settings.spark[name].formats) for name in new}
        self._served |= {name: replace(needed[name], formats=formats[name]) for name in new}
        self._new |= new

    def put(self, tables: Tables, *, relist: bool) -> None:
        """Put tables in force that were prepared. `relist`: the patterns may be others, and are listed anew."""
        self.now = tables
        new, self._new = self._new, {}
        self._offer(tables.listed, sources_of(tables.config.discover, self._storages) if relist else None, new)
