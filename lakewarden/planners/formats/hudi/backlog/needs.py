"""Whether a table's policies need to know what every commit wrote. Reading that is not free."""

from __future__ import annotations

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Mode, Table

_SERVICES = frozenset({Service.CLUSTERING, Service.TTL, Service.CATALOG_SYNC})
"""Clustering avoids what was just written. Ttl tells Lakewarden's deletions from those of a writer by their signature.
Catalog sync tells deletions of partitions from other replacements."""

_TOLD_AHEAD = frozenset({Service.COMPACTION, Service.CLEAN})


def needs_commits(table: Table) -> bool:
    """Whether one of the table's policies depends on what its commits wrote, and not only on how many there were. A
    table that is not acted on is shown what its services would do, so it needs them for that.
    """
    if table.mode is not Mode.ACT and not _TOLD_AHEAD.isdisjoint(table.policies):
        return True
    return not _SERVICES.isdisjoint(table.policies) or any(p.trigger.counts_files() for p in table.policies.values())
