"""Which writes would fail because of a step of Lakewarden (docs/hudi.md)."""

from __future__ import annotations

from datetime import timedelta

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.formats.hudi.metadata.heartbeats import may_lose
from lakewarden.planners.model.instant import Instant, InstantKind, Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.view import TableView

_HURT_ONLY_BY_COMMITS = 8

_INTERVALS = 10
_AT_LEAST = timedelta(minutes=1)


def endangered_writes(view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
    """Return the writes in flight that would fail if `service` took `step` on `instant` now.

    A writer that prefers to lose (`PreferWriterConflictResolutionStrategy`) loses to every compaction with a later
    instant that is completed before the write. So a compaction is committed when the writes that began before its plan
    have ended. It is planned between a writer's writes. If several are in flight there is no such moment, and from
    version 8 on none is needed. Below version 9 a pending compaction is enough to fail an earlier write: there the
    program plans between two looks under the table's lock, and around what writes in flight touch.

    A log compaction is completed as a `deltacommit`. A write loses to it that appends to one of its file groups, even
    one that began after its plan: see `awaited`, and its program's look under the lock. These two do not endanger a
    write that cannot lose (`may_lose`), as long as completion times put its log files into their slices. Below version
    8 a compaction would hide its rows.

    A clustering and a deletion of partitions endanger no write here. Their programs look under the table's lock which
    partitions each write in flight touches, and avoid them (`beside.py`).
    """
    writes = view.writers.in_flight
    now = view.observed_at
    at_stake = writes if pending_plans_hurt(view) else tuple(write for write in writes if may_lose(write, now))
    match service, step:
        case Service.COMPACTION, _ if view.writers.non_blocking:
            return ()
        case Service.COMPACTION, Step.PLAN:
            return at_stake if pending_plans_hurt(view) or len(at_stake) == 1 else ()
        case Service.COMPACTION, Step.COMMIT:
            return _begun_before(at_stake, instant)
        case Service.LOG_COMPACTION, Step.COMMIT:
            return _that_look_back(view, at_stake, instant)
        case _:
            return ()


def awaited(view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
    """Return what a step should wait for although no write in flight would fail by it now.

    A compaction is not executed before it could be committed, because its work would have to be done again. No write
    begins before an existing plan. So if there is no write to wait for at its execution, there is none at its commit.

    A log compaction waits until one write that was requested after its plan is completed. A later write compares
    itself with nothing older than that one. So it never meets the log compaction, whether it is in flight then or
    begins at the moment of the commit. If the table has no writers, there is no write to wait for.
    """
    if (service, step) == (Service.COMPACTION, Step.EXECUTE):
        writes = endangered_writes(view, service, step=Step.COMMIT, instant=instant)
        alive = ", ".join(write.time for write in writes if write.may_be_alive(view.observed_at))
        return f"write {alive} began before the plan and would fail by its commit" if alive else None
    if (service, step) != (Service.LOG_COMPACTION, Step.COMMIT) or instant is None or _first_after(view, instant):
        return None
    return f"no write begun after plan {instant} was completed yet" if _is_written_to(view) else None


def _that_look_back(view: TableView, writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    """Return the writes that compare themselves with what was completed since `instant` was planned. They began before
    the first write requested after it was completed. Layout 1 does not say when that was.
    """
    first = None if instant is None else _first_after(view, instant)
    if first is None or first.completed_at is None:
        return writes
    return tuple(write for write in writes if write.requested_at <= first.completed_at)


def _first_after(view: TableView, instant: str) -> Instant | None:
    """Return the write requested after `instant` that was completed first."""
    writes = [
        i for i in view.timeline.instants if i.stands_for is InstantKind.WRITE and not i.pending and i.time > instant
    ]
    return min(writes, key=lambda write: write.completed_time or write.time, default=None)


def _is_written_to(view: TableView) -> bool:
    """Whether the table's cadence lets a write be expected: the last one is at most some intervals old."""
    usual, last = view.writers.usual_interval, view.writers.last_commit_at
    if usual is None or last is None:
        return False
    return view.observed_at - last < max(_INTERVALS * usual, _AT_LEAST)


def pending_plans_hurt(view: TableView) -> bool:
    """Whether the table's version is so low that a pending compaction alone makes an earlier write fail."""
    version = counted(view.version)
    return version is not None and version < _HURT_ONLY_BY_COMMITS


def _begun_before(writes: tuple[Instant, ...], instant: str | None) -> tuple[Instant, ...]:
    return tuple(write for write in writes if instant is None or write.time < instant)
