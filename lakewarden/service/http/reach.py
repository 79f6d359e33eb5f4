"""What a request reaches: the tables and runs that its caller may see, the policy of a service, and the answer of the
control thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import TypeVar

from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.control.plane import ControlPlane
from lakewarden.service.control.table_statuses import TableStatus
from lakewarden.service.http.errors import ApiError
from lakewarden.service.http.schemas import RunBody, run_body
from lakewarden.service.model.access import Caller
from lakewarden.service.model.run import Run

_Answer = TypeVar("_Answer")

CONTROL_THREAD_ANSWERS_WITHIN = timedelta(seconds=30)


def registered(plane: ControlPlane, table: str) -> TableStatus:
    """Return the status of a table. Raises ApiError (404) if no such table is registered."""
    status = plane.table(TableId(table))
    if status is None:
        raise ApiError(404, "not_found", f"table {table!r} is not registered")
    return status


def tables_for(plane: ControlPlane, caller: Caller) -> Sequence[TableStatus]:
    """Return every registered table for which a caller has its role."""
    every = plane.tables()
    return every if caller.reaches_everything else [status for status in every if caller.reaches(status.table.id)]


def policy_of(status: TableStatus, service: str) -> Service:
    """Return a service for which a table has a policy. Raises ApiError (404) if it has none."""
    key = next((candidate for candidate in status.table.policies if candidate == service), None)
    if key is None:
        able = ", ".join(status.table.policies) or "none"
        raise ApiError(404, "not_found", f"table {status.table.id} has no policy for {service!r}; it has: {able}")
    return key


def run_for(plane: ControlPlane, run: str, caller: Caller) -> Run:
    """Return a run of a table that the caller reaches. Raises ApiError (404) if there is none."""
    record = plane.run(RunId(run))
    if record is None or not caller.reaches(record.table):
        raise ApiError(404, "not_found", f"no run {run}, or several runs begin with it")
    return record


def run_bodies(plane: ControlPlane, runs: Sequence[Run], *, now: datetime) -> list[RunBody]:
    """Return runs as JSON, with what only the daemon knows that carries them out. Raises TemporaryError if the store
    does not answer.
    """
    waiting, doing = plane.waiting(), plane.progress()
    return [run_body(run, now=now, waits_for=waiting.get(run.id), doing=doing.get(run.id)) for run in runs]


async def answered(
    future: Future[_Answer], *, within: timedelta = CONTROL_THREAD_ANSWERS_WITHIN, unknown: str = "see /v1/runs"
) -> _Answer:
    """Return the answer of the control thread.

    If it takes longer, raises ApiError (503). The control thread may still act, and `unknown` says how to find out.
    """
    try:
        return await asyncio.wait_for(asyncio.wrap_future(future), timeout=within.total_seconds())
    except TimeoutError:
        raise ApiError(503, "unavailable", f"the control thread is busy: {unknown}") from None
