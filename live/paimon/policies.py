"""The policies that the suite and the trials give to Lakewarden on Paimon."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from lakewarden.planners.model.instant import Service

_POLICIES: Mapping[Service, Mapping[str, Any]] = {
    Service.COMPACTION: {"trigger": {"num_commits": 5}},
    Service.CLEAN: {
        "trigger": {"num_commits": 8},
        "options": {"max_snapshot_age": "8s", "min_snapshots_to_keep": 3},
    },
    Service.ORPHANS: {"trigger": {"time_elapsed": "10s"}, "options": {"unknown_for": "8s"}},
    Service.PARTITION_COMMIT: {"options": {"idle_time": "2s"}},
    Service.TTL: {"trigger": {"num_commits": 1}, "options": {"retain": "1d"}},
}
"""Every service that has work beside a writer with commits of seconds."""


TABLE_OPTIONS: Mapping[str, Any] = MappingProxyType({"longest_outage": "8s"})
"""Snapshots expire within the time of a test."""


def policies(supported: Collection[Service]) -> dict[str, Any]:
    """Return the policies, as a configuration writes them, of every supported service."""
    return {service.value: deepcopy(dict(policy)) for service, policy in _POLICIES.items() if service in supported}
