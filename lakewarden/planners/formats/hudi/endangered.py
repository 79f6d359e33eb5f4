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
    go. A clustering conflicts with whatever is being written. A clean rolls back every pending write that shows no
    heartbeat, so one that was begun a moment ago and has not shown its first yet is waited for.
    """
    writes = view.writers.in_flight
    match service, step:
        case ((Service.COMPACTION | Service.LOG_COMPACTION), "plan"):
            return writes
        case ((Service.COMPACTION | Service.LOG_COMPACTION), "execute"):
            return _begun_before(writes, instant) if _pending_plans_hurt(view) else ()
        case ((Service.COMPACTION | Service.LOG_COMPACTION), "commit"):
            return _begun_before(writes, instant)
        case Service.CLUSTERING, "commit":
            return writes
        case Service.CLEAN, "commit":
            return tuple(write for write in writes if write.guarded_until is None)
        case _:
            return ()


def _pending_plans_hurt(view: TableView) -> bool:
    return view.version.isdigit() and int(view.version) < _HURT_ONLY_BY_COMMITS


def _begun_before(writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    return tuple(write for write in writes if instant is None or write.time < instant)
