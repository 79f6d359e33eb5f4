"""What compaction and log compaction share: Hudi schedules, executes and commits both in three similar calls."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from lakewarden.executors.contract import Plan
from lakewarden.executors.programs.hudi.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.observing import compacted_files, pending_plan, plan_of
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.steps.undone import (
    completed_writes,
    reading,
    require_not_undone,
    writes_named_by,
)
from lakewarden.executors.programs.undertaking import undertaken
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY, DataFile
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.view import TableView

_LONGEST_REASON = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """The names of the three calls: the `TableServiceType`, and two methods of `SparkRDDWriteClient`."""

    service: Service
    schedule: str
    execute: str
    commit: str


class RewriteSteps(ABC):
    """The three steps: plan, write the new files without committing them, commit them."""

    def __init__(self, table: OpenTable, calls: Calls) -> None:
        self._table = table
        self._calls = calls
        self._written: Any = None
        self._statuses: Any = None
        self._file_groups = 0
        self._may_have_read: frozenset[str] = frozenset()

    def plan(self) -> Plan | None:
        """Schedule a rewrite, or take up the pending one that was assigned."""
        instant = self._table.assignment.instant or self._schedule()
        return None if instant is None else plan_of(self._pending(instant))

    def execute(self, plan: Plan) -> None:
        """Write the new files without committing them.

        From Hudi 1.1 on the call only prepares an RDD. Counting it writes the files, and keeping it makes the commit
        not write them again. The heartbeat of a predecessor that is proved dead would block the instant for minutes,
        so it is removed first. Raises UndoneError if the plan names files of a write that was rolled back, and
        TemporaryError if a row could not be written.
        """
        self._table.before_a_commit()
        view = self._table.view()
        pending = pending_plan(view, self._calls.service, plan.on_timeline)
        self._judge(view, pending.time, compacted_files(self._table.assignment, pending, self._table.storage))
        self._may_have_read = completed_writes(view)
        with reading(self._table, plan.on_timeline, self._may_have_read), translated(Step.EXECUTE):
            if self._table.assignment.predecessor_dead:
                self._table.client.remove_heartbeat(plan.on_timeline)
            self._written = self._table.client.write(self._calls.execute, plan.on_timeline)
            self._statuses = self._written.getWriteStatuses()
            self._table.client.keep(self._statuses)
            self._file_groups = written_whole(self._statuses)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant. To be called under the lock. Raises UndoneError if a write that was read was rolled
        back.
        """
        client = self._table.client
        require_not_undone(self._table, self._table.view(), plan.on_timeline, self._may_have_read)
        self._table.stand_still_while_times_repeat()
        self._table.before_a_commit()
        with translated(Step.COMMIT):
            client.complete(self._calls.commit, plan.on_timeline, self._written)
        return {"file_groups": self._file_groups}

    def _judge(self, view: TableView, instant: str, files: Collection[DataFile]) -> None:
        """Refuse a plan with these files that must not be executed."""
        require_not_undone(self._table, view, instant, writes_named_by(files))

    @abstractmethod
    def abort(self) -> None:
        """Leave the plan, or withdraw it, so that neither it nor our heartbeat blocks another client."""

    def release(self) -> None:
        """Free what the run holds in the JVM."""
        if self._statuses is not None:
            with on_the_way_out("free what was written"):
                self._statuses.unpersist()

    def _schedule(self) -> str | None:
        with translated(Step.PLAN):
            signature = {RUN_KEY: self._table.assignment.run}
            return self._table.client.schedule(self._calls.schedule, extra_metadata=signature)

    def _pending(self, instant: str) -> Instant:
        """Return the plan as the timeline shows it. Raises TemporaryError if it is not pending there."""
        return pending_plan(self._table.view(), self._calls.service, instant)


def written_whole(statuses: Any) -> int:
    """Let Hudi write what these write statuses tell of, and return how many they are.

    A row that cannot be written is an error in a status, and no exception (`WriteStatus.markFailure`). Hudi commits a
    rewrite all the same, and the row is gone (run). Raises TemporaryError for such a row, and Py4JJavaError.
    """
    written = int(statuses.count())
    # with a record index each status has all its keys: only those of one partition at a time fit into the driver
    large = written > 0 and statuses.first().isTrackingSuccessfulWrites()
    found = statuses.toLocalIterator() if large else statuses.collect()
    failed = next((status for status in found if status.hasErrors() or status.hasGlobalError()), None)
    if failed is not None:
        causes = [failed.getGlobalError(), *failed.getErrors().values()]
        why = next((str(cause.toString()) for cause in causes if cause is not None), "Hudi does not say why")
        raise TemporaryError(
            f"{int(failed.getTotalErrorRecords())} rows of file group {failed.getFileId()} could not be written, and "
            f"nothing was committed: {why.splitlines()[0][:_LONGEST_REASON]}"
        )
    return written


_Steps = TypeVar("_Steps", bound=RewriteSteps)


@contextlib.contextmanager
def rewriting(steps: _Steps) -> Iterator[_Steps]:
    """Let the steps be taken, and abort them if that fails. Free what they hold in any case."""
    try:
        with undertaken(steps):
            yield steps
    finally:
        steps.release()
