"""The policies that the suite gives to Lakewarden on Iceberg."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from lakewarden.planners.model.instant import Service

_POLICIES: Mapping[Service, Mapping[str, Any]] = {
    Service.COMPACTION: {"trigger": {"num_commits": 10}, "options": {"delete_file_threshold": 1}},
    # late orders arrive for a while after a day's last change
    Service.CLUSTERING: {
        "trigger": {"num_commits": 20},
        "options": {"untouched_for": "20s", "sort_order": "order_id", "min_input_files": 1},
    },
    Service.CLEAN: {
        "trigger": {"num_commits": 20},
        "options": {"max_snapshot_age": "45s", "min_snapshots_to_keep": 5},
    },
    Service.ORPHANS: {"trigger": {"time_elapsed": "30s"}, "options": {"unknown_for": "10s"}},
    Service.ARCHIVE: {"trigger": {"num_commits": 20}, "options": {"small_manifests": 10}},
    Service.TABLE_STATS: {"trigger": {"num_commits": 40}},
}
"""Every service of the format."""


def policies(supported: Collection[Service]) -> dict[str, Any]:
    """Return the policies, as a configuration writes them, of every supported service."""
    return {service.value: dict(policy) for service, policy in _POLICIES.items() if service in supported}
