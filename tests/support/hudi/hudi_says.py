"""What we read of a table, in the form in which tests/fixtures/hudi/generate.py has Hudi report it."""

from __future__ import annotations

from typing import Any

from lakewarden.planners.formats.hudi.metadata.names import Action
from lakewarden.planners.model.instant import Service, Timeline


def instants(timeline: Timeline) -> list[dict[str, Any]]:
    """Return requested time, action, state and completion time of every instant, in order."""
    return [
        {
            "time": i.time,
            "action": i.action if i.pending else Action(i.action).completed_as.value,
            "state": i.state.name,
            "completed_at": i.completed_time,
        }
        for i in timeline.instants
    ]


def pending_compactions(timeline: Timeline) -> list[dict[str, Any]]:
    """Return time and size of every pending compaction."""
    return [
        {"time": p.time, "file_groups": p.plan and p.plan.file_groups, "bytes": p.plan and p.plan.bytes}
        for p in timeline.pending(Service.COMPACTION)
    ]
