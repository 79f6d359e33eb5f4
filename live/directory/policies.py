"""The policies that the suite gives to Lakewarden on plain directories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

POLICIES: Mapping[str, Any] = {
    "compaction": {"trigger": {"num_commits": 1}, "options": {"min_input_files": 2}},
    "partition_commit": {},
    "ttl": {
        "trigger": {"num_commits": 1},
        "options": {"retain": "1h", "timestamp_pattern": "$dt $at", "timestamp_formatter": "yyyy-MM-dd HHmmss"},
    },
    "orphans": {"trigger": {"num_commits": 1}, "options": {"unchanged_for": "1h"}},
}
"""Every service of the format, as often as it can beside writers."""
