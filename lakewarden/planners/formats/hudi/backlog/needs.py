"""What a table's policies need to know of it: reading what every commit wrote is not free."""

from __future__ import annotations

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.triggers import AllOf, AnyOf, LogBytes, LogFiles, SmallFiles, Trigger

_SERVICES = frozenset({Service.CLUSTERING, Service.TTL, Service.CATALOG_SYNC})
"""A clustering keeps off what was just written; a ttl of ours is told from a writer's deletion by its signature, and
deletions of partitions, which a catalog has to be told of, from other replacements."""


def needs_commits(table: Table) -> bool:
    """Whether one of the table's policies depends on what its commits wrote, and not only on how many there were."""
    return not _SERVICES.isdisjoint(table.policies) or any(_counts_files(p.trigger) for p in table.policies.values())


def _counts_files(trigger: Trigger) -> bool:
    match trigger:
        case LogFiles() | LogBytes() | SmallFiles():
            return True
        case AllOf() | AnyOf():
            return any(map(_counts_files, trigger.triggers))
        case _:
            return False
