"""Settings of one table that cannot hold together."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from lakewarden.planners.formats.iceberg.options import IcebergTableOptions
from lakewarden.planners.formats.iceberg.service_options import CleanOptions, OrphansOptions
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.ports import Contradiction
from lakewarden.planners.settings import format_duration

_YOUNGEST_ORPHAN = timedelta(hours=24)


def contradictions(table: Table) -> Iterator[Contradiction]:
    """Yield the keys that have to change, and why."""
    clean, orphans = (_options(table, service) for service in (Service.CLEAN, Service.ORPHANS))
    outage = (table.options if isinstance(table.options, IcebergTableOptions) else IcebergTableOptions()).longest_outage
    age = clean.max_snapshot_age if isinstance(clean, CleanOptions) else None
    if age is not None and age < outage:
        yield Contradiction(
            key="services.clean.options.max_snapshot_age",
            reason=f"{format_duration(age)} is less than options.longest_outage, {format_duration(outage)}: a writer "
            "that comes back by then may look for a snapshot that is gone. Raise max_snapshot_age, or lower "
            "longest_outage if no writer is ever away for so long",
        )
    if isinstance(orphans, OrphansOptions) and orphans.older_than < _YOUNGEST_ORPHAN:
        yield Contradiction(
            key="services.orphans.options.older_than",
            reason=f"{format_duration(orphans.older_than)} is less than 24h: a younger file may belong to a commit "
            "that is under way. Set at least 24h",
        )


def _options(table: Table, service: Service) -> Any:
    policy = table.policies.get(service)
    return None if policy is None else policy.options
