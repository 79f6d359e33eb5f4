"""A run of ours that is stopped at a point: it dies there, so that what comes after it never happens, or it waits there
while others act.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from fuzz.rows.contract import FuzzedTable, NotNow
from fuzz.rows.held import Keeper
from lakewarden.executors import points
from lakewarden.executors.contract import Assignment, Granted, Outcome, Plan
from lakewarden.executors.points import Point, Watcher
from lakewarden.executors.programs.registry import PROGRAMS
from lakewarden.executors.worker.runs import carry_out
from lakewarden.planners.model.decision import Due
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.registry import FORMATS
from lakewarden.planners.storage import storage_for

_LONGEST = 120.0
_NAMES = itertools.count(1)


class _Dies(Watcher):
    """Lets one run die at the point or the step of a number."""

    def __init__(self, run: str, at: int, die: Callable[[], None]) -> None:
        self._run, self._left, self._die = run, at, die

    def reach(self, point: Point, *, run: str, service: str) -> None:
        """Count a point."""
        self._count(run)

    @contextlib.contextmanager
    def sees(self, step: Step, plan: Plan, assignment: Assignment) -> Iterator[None]:
        """Count the beginning and the end of a step."""
        self._count(assignment.run)
        yield
        self._count(assignment.run)

    def _count(self, run: str) -> None:
        if run == self._run:
            self._left -= 1
            if self._left == 0:
                self._die()


def run_killed(
    format_: str,
    table: FuzzedTable,
    given: Mapping[str, Any],
    spark: Any = None,
    *,
    by_fork: bool,
    meanwhile: Callable[[], None] | None = None,
) -> Outcome | None:
    """Carry out a run that dies at the point with the number `at`, or ends before. By a fork it dies as a process, and
    has no Spark. Otherwise its thread stands still for ever, or goes on when `meanwhile` is done: then its outcome is
    returned. Raises NotNow if the service is not due.
    """
    service = Service(given["service"])
    options = FORMATS[format_].services[service].model_validate(dict(given.get("options", {})))
    try:
        decision = Keeper(format_, table, spark).decide(service, dict(given.get("options", {})))
    except (TemporaryError, PermanentError) as why:
        raise NotNow(f"not observed: {why}") from why
    if not isinstance(decision, Due):
        raise NotNow(f"{service} is not due")
    assignment = Assignment(
        run=RunId(f"fuzz-killed-{next(_NAMES)}"),
        epoch=1,
        table=TableId("fuzz.rows"),
        format=format_,
        location=table.location,
        service=service,
        catalog=table.catalog,
        table_options=FORMATS[format_].table_options.model_validate(dict(table.options)).model_dump(mode="json"),
        service_options=options.model_dump(mode="json"),
    )
    stopped, goes_on, ended = threading.Event(), threading.Event(), threading.Event()
    outcomes: list[Outcome] = []

    def carry() -> None:
        program = PROGRAMS[format_].programs[service]()
        own = spark
        if spark is not None:
            own = spark.newSession()
            active = spark.sparkContext._jvm.org.apache.spark.sql.SparkSession  # noqa: SLF001
            active.setActiveSession(own._jsparkSession)  # noqa: SLF001
        outcome = carry_out(program, own, assignment, storage_for(table.location), lambda _step, _plan: Granted())
        outcomes.append(outcome)

    if by_fork:
        child = os.fork()
        if child == 0:
            points.watch_by(_Dies(assignment.run, given["at"], lambda: os._exit(9)))
            with contextlib.suppress(BaseException):
                carry()
            os._exit(0)
        os.waitpid(child, 0)
        return None

    def stand_still() -> None:
        stopped.set()
        goes_on.wait()

    def carried() -> None:
        carry()
        ended.set()
        stopped.set()

    points.watch_by(_Dies(assignment.run, given["at"], stand_still))
    try:
        threading.Thread(target=carried, name=assignment.run, daemon=True).start()
        assert stopped.wait(_LONGEST), "the run hangs"
        if meanwhile is not None:
            meanwhile()
            goes_on.set()
            assert ended.wait(_LONGEST), "the run hangs"
    finally:
        points.watch_by(Watcher())
    return outcomes[0] if outcomes else None
