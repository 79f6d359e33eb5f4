"""Which writes would fail by a step of ours (docs/hudi.md)."""

from __future__ import annotations

from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.view import TableView

_HURT_ONLY_BY_COMMITS = 8


def endangered_writes(view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
    """Return the writes in flight that would fail if `service` now took `step` on `instant`.

    A writer that prefers to lose (`PreferWriterConflictResolutionStrategy`) loses to every compaction with a later
    instant that is completed before it; below table version 8 a merely pending one is enough. So a compaction is
    planned between writes, and committed when the writes begun before its plan have ended. A write that began
    while we planned is found at `execute`: below version 8 it is endangered by the plan itself, which then has to
    go. A log compaction is completed as a `deltacommit`, to which every write in flight loses that appends to one of
    its file groups, whenever it began. A deletion of partitions may conflict with whatever is being written. A clean
    rolls back every pending write that shows no heartbeat, so one that was begun a moment ago and has not shown its
    first yet is waited for.

    A clustering is planned between writes, too, but its commit endangers none that is told here: its program sees
    which partitions each write in flight touches, keeps off them, and lets itself lose where it meets one.
    """
    writes = view.writers.in_flight
    match service, step:
        case ((Service.COMPACTION | Service.CLUSTERING), "plan"):
            return writes
        case Service.COMPACTION, "execute":
            return _begun_before(writes, instant) if _pending_plans_hurt(view) else ()
        case Service.COMPACTION, "commit":
            return _begun_before(writes, instant)
        case ((Service.LOG_COMPACTION | Service.TTL), "commit"):
            return writes
        case Service.CLEAN, "commit":
            return tuple(write for write in writes if write.guarded_until is None)
        case _:
            return ()


def _pending_plans_hurt(view: TableView) -> bool:
    return view.version.isdigit() and int(view.version) < _HURT_ONLY_BY_COMMITS


def _begun_before(writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    return tuple(write for write in writes if instant is None or write.time < instant)
