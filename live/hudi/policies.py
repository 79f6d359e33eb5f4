"""The policies that the suite gives to Lakewarden, and the options of a writer that schedules inline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

from lakewarden.demo.formats.hudi.options import TableType
from lakewarden.planners.model.instant import Service


class WriterKind(StrEnum):
    """How the table is written."""

    UPSERT = "upsert"
    INLINE = "inline"
    STREAMING = "streaming"


DEAD_AFTER = timedelta(minutes=10)
"""How long a writer is silent before its write is rolled back."""

COMPACT_AT = 6
"""The trigger of compaction: so many commits of each writer."""

_ON_LOG_FILES = frozenset({Service.COMPACTION, Service.LOG_COMPACTION})

_POLICIES: Mapping[Service, Mapping[str, Any]] = {
    Service.COMPACTION: {"trigger": {"num_commits": COMPACT_AT}},
    Service.LOG_COMPACTION: {"trigger": {"num_commits": 3}, "options": {"log_blocks_threshold": 2}},
    # a day that is not warm any more stays cold; every batch touches every warm day
    Service.CLUSTERING: {
        "trigger": {"num_commits": 4},
        "options": {"untouched_for": "25s", "sort_columns": ["order_id"]},
    },
    Service.CLEAN: {"trigger": {"num_commits": 3}, "options": {"commits_retained": 6}},
    Service.ARCHIVE: {"trigger": {"num_commits": 3}, "options": {"keep_min_commits": 10, "keep_max_commits": 13}},
    Service.ROLLBACK: {},
}
"""Every service that a run of minutes can show. ttl counts in days, no less."""

_OF_SEVERAL: Mapping[Service, Mapping[str, Any]] = {
    **_POLICIES,
    Service.LOG_COMPACTION: {"trigger": {"num_commits": 5}, "options": {"log_blocks_threshold": 2}},
    Service.CLUSTERING: {
        "trigger": {"num_commits": 6},
        "options": {"untouched_for": "30s", "sort_columns": ["order_id"]},
    },
    Service.CLEAN: {"trigger": {"num_commits": 5}, "options": {"commits_retained": 12}},
    Service.ARCHIVE: {"trigger": {"num_commits": 5}, "options": {"keep_min_commits": 20, "keep_max_commits": 26}},
}
"""The same for several writers. Each of them commits as often as one writer alone does."""

_INLINE = frozenset({Service.COMPACTION})
"""What the inline writer schedules. It could also schedule clustering, but that fails in two ways. A table has few
days, and Hudi's `ClusteringPlanPartitionFilter` throws IndexOutOfBounds if there are fewer days than it must skip. If
it skips none, its plans take the warm days, and the next batch's updates of those days are rejected. So Lakewarden does
the clustering."""

_INLINE_COMMITS = 4


def policies(kind: TableType, writer: WriterKind, supported: Collection[Service]) -> dict[str, Any]:
    """Return the policies, as a configuration writes them, of every supported service that has work on the table."""
    found: dict[str, Any] = {}
    for service, policy in _POLICIES.items():
        if service not in supported or (kind is TableType.COW and service in _ON_LOG_FILES):
            continue
        by_writer = writer is WriterKind.INLINE and service in _INLINE
        found[service.value] = {**policy, **({"schedule": "writer", "grace": "1s"} if by_writer else {})}
    return found


def policies_of_several(kind: TableType, writers: int) -> dict[str, Any]:
    """Return the policies of a table that so many writers write."""
    compaction = {"trigger": {"num_commits": COMPACT_AT * writers}}
    return {
        service.value: dict(policy)
        for service, policy in {**_OF_SEVERAL, Service.COMPACTION: compaction}.items()
        if not (kind is TableType.COW and service in _ON_LOG_FILES)
    }


def inline_options(services: Collection[str]) -> dict[str, str]:
    """Return the further options of a writer that schedules inline: when it schedules."""
    if Service.COMPACTION not in services:
        return {}
    return {"hoodie.compact.inline.max.delta.commits": str(_INLINE_COMMITS)}
