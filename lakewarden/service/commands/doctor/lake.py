"""Checks of what the tables need: their catalogs, their files, their metadata and the addresses of their locks."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, MutableMapping, Sequence
from datetime import UTC, datetime
from functools import partial

from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import by_place, is_in_catalog
from lakewarden.service.commands.doctor.findings import CheckFinding, failed, in_time, not_checked, ok
from lakewarden.service.config.layers.patterns import ConfiguredCatalog
from lakewarden.service.config.loading import Config
from lakewarden.service.control.sources import CatalogSource, sources_of
from lakewarden.service.rules.registering import registered_twice

_SECONDS = 20.0
MOST_TABLES = 50
"""So many tables are read. The others are not checked."""


def of_lake(config: Config) -> Sequence[Callable[[], CheckFinding]]:
    """Return the checks. They read, and write nothing."""
    storages = Storages(config.settings.storage, roots=config.roots)
    catalogs = [
        partial(_in_time, f"catalog {name}", partial(_catalog, one, storages), "check its address and its credentials")
        for name, one in sorted(config.catalogs.items())
    ]
    known = [*config.tables, *(one.any_table for one in config.discover)]
    locks = sorted({address for table in known for address in _addresses(table)})
    unknown = sorted({one for table in known if (one := _unknown_lock(table)) is not None})
    folders: dict[tuple[str, str], TableId] = {}
    tables = [
        partial(
            _in_time, f"table {table.id}", partial(_table, table, storages, folders), "'lakewarden explain' says more"
        )
        for table in config.tables[:MOST_TABLES]
    ]
    patterns = [
        partial(_in_time, f"pattern {one.name}", partial(_listed, one), "check the pattern, the store and its access")
        for one in sources_of([entry for entry in config.discover if entry.by_path], storages)
    ]
    left = len(config.tables) - MOST_TABLES
    return [
        *catalogs,
        *patterns,
        *(partial(_lock, address) for address in locks),
        *(partial(not_checked, f"lock {one}", "the daemon proves it while writers commit") for one in unknown),
        *tables,
        *([partial(not_checked, f"{left} other tables", f"only {MOST_TABLES} tables are read")] if left > 0 else []),
    ]


def _in_time(check: str, ask: Callable[[str], CheckFinding], remedy: str) -> CheckFinding:
    return in_time(check, partial(ask, check), seconds=_SECONDS, remedy=remedy)


def _catalog(catalog: ConfiguredCatalog, storages: Storages, check: str) -> CheckFinding:
    named = f"catalog://{catalog.name}/"
    listing = catalog.format.tables_in(catalog.name, catalog.settings, storages.of(named))
    return ok(check, f"it answers, and lists {len(listing.tables)} tables")


def _listed(source: CatalogSource, check: str) -> CheckFinding:
    found = source.find()
    if found.refused:
        name, why = next(iter(found.refused.items()))
        return failed(check, f"{len(found.refused)} of its tables cannot be registered: {name}: {why}", "correct them")
    if found.unlisted:
        name, why = next(iter(found.unlisted.items()))
        return failed(
            check, f"{len(found.unlisted)} places cannot be listed: {name}: {why}", "check the access to them"
        )
    return ok(check, f"its folders are listed, and {len(found.tables)} tables are there")


def _table(
    table: Table, storages: Storages, folders: MutableMapping[tuple[str, str], TableId], check: str
) -> CheckFinding:
    """Read a table, and note its folder. Checks run at the same time: the second table in a folder names the first."""
    begun, now = time.monotonic(), datetime.now(UTC)
    view = FORMATS[table.format].observe(table, storages.of(table.location), None, now=now).view
    first = folders.setdefault((table.format, by_place(view.folder or table.location)), table.id)
    if first != table.id:
        twice = registered_twice([first])
        return failed(check, twice.reason, twice.remedy or "")
    took = f"read in {time.monotonic() - begun:.1f}s"
    if view.faults:
        return failed(check, "; ".join(view.faults), "a part of the metadata cannot be read: restore it")
    blockers = [one for one in view.blockers if not one.moot]
    if blockers:
        return failed(check, f"{took}; {blockers[0].reason}", blockers[0].remedy)
    kind = "catalog" if is_in_catalog(table.location) else "path"
    read = f"{took} by its {kind}: {table.format} {view.version or ''}".rstrip()
    return ok(check, "; warning: ".join([read, *view.warnings]))


def _addresses(table: Table) -> Sequence[str]:
    """Return the hosts and ports of the table's lock. A lock that names none has none."""
    url = getattr(getattr(table.options, "lock", None), "url", None)
    if not isinstance(url, str):
        return ()
    return re.findall(r"[^,/\s]+:\d+", re.sub(r"^\w+://", "", url))


def _unknown_lock(table: Table) -> str | None:
    lock = getattr(table.options, "lock", None)
    if lock is None or _addresses(table):
        return None
    return str(getattr(lock, "provider", type(lock).__name__))


def _lock(address: str) -> CheckFinding:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5):
            return ok(f"lock {address}", "a server accepts connections there")
    except (OSError, OverflowError) as error:
        return failed(f"lock {address}", str(error), "start it, or correct options.lock.url of the tables")
