"""What `lakewarden inspect` shows of a table, as a value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.view import Blocker, InnerTable, TableView

if TYPE_CHECKING:
    pass

_COUNTED = (Service.COMPACTION, Service.CLUSTERING, Service.CLEAN)


PLANNED = (Service.COMPACTION, Service.LOG_COMPACTION, Service.CLUSTERING, Service.CLEAN)


def report(view: TableView, table_format: str) -> dict[str, Any]:
    """Return what `inspect --json` prints.

    Instants are as the format writes them, other times in UTC. A value is null if it is not known, or if the table has
    none.
    """
    instants = view.timeline.instants
    return {
        "format": table_format,
        "table_name": view.name,
        "table_type": view.kind,
        "table_version": view.version if counted(view.version) is None else counted(view.version),
        "latest_instant": max((i.time for i in instants), default=None),
        "instants": [
            {"time": i.time, "action": i.action, "state": i.state.name, "completed_at": i.completed_time}
            for i in instants
        ],
        "pending": {service.value: pending_plans(view.timeline.pending(service)) for service in PLANNED},
        "commits_since": {service.value: _commits_since(view, service) for service in _COUNTED},
        "fullest_file_group": _fullest_file_group(view),
        "small_files": small_files(view),
        "writer_failures": [
            {"instant": failure.instant, "at": failure.at.isoformat(), "reason": failure.reason}
            for failure in view.writers.failures
        ],
        "inner_tables": [_inner_table(inner) for inner in view.inner],
        "blockers": [
            {"services": sorted(h.services) or "all", "reason": h.reason, "remedy": h.remedy}
            for h in own_blockers(view)
        ],
        "warnings": list(view.warnings),
        "readers": [
            {"name": one.name, "at": one.at, "behind": one.behind, "unreadable": one.unreadable} for one in view.readers
        ],
        "notes": {service.value: list(notes) for service, notes in view.notes.items()},
    }


def own_blockers(view: TableView) -> list[Blocker]:
    """Return the blockers of the table itself. A blocker of a policy does not apply, because there is no policy."""
    return [blocker for blocker in view.blockers if not (blocker.moot or blocker.only_if_configured)]


def _fullest_file_group(view: TableView) -> dict[str, Any] | None:
    """Return the most log files, and the most bytes in them, of one file group. Return None for a table without
    logs.
    """
    backlog = view.backlogs.get(Service.COMPACTION)
    return None if backlog is None else {"log_files": backlog.log_files, "log_bytes": backlog.log_bytes}


def small_files(view: TableView) -> int | None:
    """Return the largest number of small files that a service would merge, or None if no service counts them."""
    return max((b.small_files for b in view.backlogs.values() if b.small_files is not None), default=None)


def _inner_table(inner: InnerTable) -> dict[str, Any]:
    return {
        "name": inner.name,
        "commits_since_compaction": inner.commits,
        "compacted_at": None if inner.since is None else inner.since.isoformat(),
        "pinned_by": inner.pinned_by,
    }


def pending_plans(plans: Sequence[Instant]) -> dict[str, Any]:
    """Return how many plans are pending, the first one, and all of them."""
    return {
        "count": len(plans),
        "first": plans[0].time if plans else None,
        "instants": [plan.time for plan in plans],
        "file_groups": _sum(None if plan.plan is None else plan.plan.file_groups for plan in plans),
        "bytes": _sum(None if plan.plan is None else plan.plan.bytes for plan in plans),
    }


def _sum(parts: Iterable[int | None]) -> int | None:
    """Return the sum, or None if a part is not known."""
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _commits_since(view: TableView, service: Service) -> int:
    """Return the commits since the service, or 0 if the service has no meaning on the table."""
    backlog = view.backlogs.get(service)
    return 0 if backlog is None else backlog.commits
