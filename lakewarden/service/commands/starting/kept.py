"""What the newest cleans of the tables of a lake kept. A first configuration keeps as much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.table import Table
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import is_in_catalog
from lakewarden.planners.surveying.contents import ReadsRetention
from lakewarden.planners.surveying.registry import surveyors

_AT_ONCE = 8
_MOST_READ = 2000
"""So many tables are read. The first configuration of a larger lake says nothing of the others."""

_MOST_FAILURES = 8
"""After so many tables that could not be read, no other is read: each could wait for a store that is not reached."""


def kept_by_cleans(tables: Sequence[Table]) -> Mapping[str, int]:
    """Return by location how many commits the newest clean of a table kept, if it kept more than the default would.

    A table that cannot be read says nothing. The daemon will ask before its first clean.
    """
    read = [one for one in tables if _reader(one) is not None and not is_in_catalog(one.location)][:_MOST_READ]
    storages, failed = Storages(), list[str]()
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        found = list(threads.map(lambda table: _kept(table, storages, failed), read))
    return {table.location: commits for table, commits in zip(read, found, strict=True) if commits is not None}


def _reader(table: Table) -> ReadsRetention | None:
    surveyor = surveyors()[table.format]
    return surveyor if isinstance(surveyor, ReadsRetention) else None


def _kept(table: Table, storages: Storages, failed: list[str]) -> int | None:
    """Return what the newest clean of a table kept. `failed` are the locations that could not be read so far."""
    reader = _reader(table)
    if reader is None or len(failed) >= _MOST_FAILURES:
        return None
    try:
        return reader.kept_by_newest_clean(table, storages.of(table.location), now=datetime.now(UTC))
    except (LakewardenError, OSError, ValueError):
        failed.append(table.location)
        return None
