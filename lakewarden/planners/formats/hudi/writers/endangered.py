"""Which writes would fail by a step of ours (docs/hudi.md)."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.hudi.metadata.heartbeats import may_lose
from lakewarden.planners.model.instant import Deed, Instant, Service
from lakewarden.planners.model.view import TableView

_HURT_ONLY_BY_COMMITS = 8

_INTERVALS = 10
_AT_LEAST = timedelta(minutes=1)


def endangered_writes(view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
    """Return the writes in flight that would fail if `service` now took `step` on `instant`.

    A writer that prefers to lose (`PreferWriterConflictResolutionStrategy`) loses to every compaction with a later
    instant that is completed before it. So a compaction is committed when the writes begun before its plan have ended.
    It is planned between a writer's writes; where several are in flight there is no moment between them, and from
    version 8 on none is needed. Below version 9 a merely pending one is enough to fail a write of before it: there the
    program plans between two looks under the table's lock, and around what writes in flight touch. A log compaction is
    completed as a `deltacommit`, to which a write loses that appends to one of its file groups, even one that began
    after it was planned: see `awaited`, and its program's look under the lock. A write that cannot lose (`may_lose`) is
    not endangered by these two, as long as it is completion times that put its log files into their slices: below
    version 8 a compaction would hide its rows.

    A clustering and a deletion of partitions endanger none that is told here: their programs look under the table's
    lock which partitions each write in flight touches, and keep off them (`beside.py`).
    """
    writes = view.writers.in_flight
    now = view.observed_at
    at_stake = writes if pending_plans_hurt(view) else tuple(write for write in writes if may_lose(write, now))
    match service, step:
        case Service.COMPACTION, _ if view.writers.non_blocking:
            return ()
        case Service.COMPACTION, "plan":
            return at_stake if pending_plans_hurt(view) or len(at_stake) == 1 else ()
        case Service.COMPACTION, "commit":
            return _begun_before(at_stake, instant)
        case Service.LOG_COMPACTION, "commit":
            return _that_look_back(view, at_stake, instant)
        case _:
            return ()


def awaited(view: TableView, service: Service, *, step: str, instant: str | None) -> str | None:
    """Return what a step had better wait for although no write in flight would fail by it now.

    A compaction is not executed before it could be committed: what it has rewritten would be rewritten again. No write
    begins before a plan that is there, so where none is left to be waited for at its execution, none is at its commit.

    A log compaction waits for one write that is requested after its plan to be completed. A write that begins after
    that compares itself with nothing older than that one, and so never meets the log compaction: neither one that is
    in flight then nor one that begins in the very moment of the commit. Where nobody writes there is none to wait for.
    """
    if (service, step) == (Service.COMPACTION, "execute"):
        writes = endangered_writes(view, service, step="commit", instant=instant)
        alive = ", ".join(write.time for write in writes if write.may_be_alive(view.observed_at))
        return f"write {alive} began before the plan and would fail by its commit" if alive else None
    if (service, step) != (Service.LOG_COMPACTION, "commit") or instant is None or _first_after(view, instant):
        return None
    return f"no write begun after plan {instant} was completed yet" if _is_written_to(view) else None


def _that_look_back(view: TableView, writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    """Return the writes that compare themselves with what was completed since `instant` was planned: all that
    began before a write requested after it was completed. Layout 1 does not say when that was.
    """
    first = None if instant is None else _first_after(view, instant)
    if first is None or first.completed_at is None:
        return writes
    return tuple(write for write in writes if write.requested_at <= first.completed_at)


def _first_after(view: TableView, instant: str) -> Instant | None:
    """Return the write requested after `instant` that was completed first."""
    writes = [i for i in view.timeline.instants if i.stands_for is Deed.WRITE and not i.pending and i.time > instant]
    return min(writes, key=lambda write: write.completed_time or write.time, default=None)


def _is_written_to(view: TableView) -> bool:
    """Whether the table's cadence lets a write be expected: the last one is at most some intervals old."""
    usual, last = view.writers.usual_interval, view.writers.last_commit_at
    if usual is None or last is None:
        return False
    return view.observed_at - last < max(_INTERVALS * usual, _AT_LEAST)


def pending_plans_hurt(view: TableView) -> bool:
    """Whether a table's version is one below which a pending compaction alone makes an earlier write fail."""
    version = counted(view.version)
    return version is not None and version < _HURT_ONLY_BY_COMMITS


def _begun_before(writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    return tuple(write for write in writes if instant is None or write.time < instant)
