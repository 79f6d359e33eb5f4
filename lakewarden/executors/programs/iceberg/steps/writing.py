"""File groups are written anew, several at a time, by Spark jobs that all bear the name of the run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from pyspark import InheritableThread

from lakewarden.executors.contract import Step
from lakewarden.executors.programs.iceberg.client.errors import JobsCancelledError, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.client.runners import MakeRunner
from lakewarden.executors.programs.iceberg.steps.file_groups import MadeGroup
from lakewarden.planners.model.errors import UnknownError


class Writing:
    """The writing of some file groups: which of them were `written`, and what went wrong with others.

    With `goes_on` a group that fails leaves the others to be written; without it no further one is begun. Nothing is
    begun any more where the run was cancelled, or its JVM is gone (`stopped`).
    """

    def __init__(
        self, table: OpenTable, groups: Sequence[MadeGroup], make_runner: MakeRunner, *, goes_on: bool
    ) -> None:
        self.written: list[MadeGroup] = []
        self.failures: list[Exception] = []
        self.stopped = False
        self._table = table
        self._goes_on = goes_on
        self._waiting = deque(groups)
        self._lock = threading.Lock()
        with translated(Step.PLAN):  # what is refused here, is refused whenever it is tried
            self._session = session_to_write_in(table)
            self._runner = make_runner(table, self._session)
            self._runner.init(table.java_map({}))

    def carry_out(self, *, at_a_time: int) -> None:
        """Write the groups, and return when no thread is at one any more."""
        threads = [InheritableThread(target=self._work) for _ in range(min(at_a_time, len(self._waiting)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self) -> None:
        while (group := self._next()) is not None:
            try:
                self._write(group)
            except Exception as error:  # noqa: BLE001 - the edge of a thread: whoever joins it reads what happened
                self._failed(error)
            else:
                self.written.append(group)

    def _next(self) -> MadeGroup | None:
        with self._lock:
            return self._waiting.popleft() if self._waiting and not self.stopped else None

    def _write(self, group: MadeGroup) -> None:
        with translated(Step.EXECUTE):
            self._table.jvm.org.apache.spark.sql.SparkSession.setActiveSession(self._session)
            group.java.setOutputFiles(self._runner.rewrite(group.java))

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.failures.append(error)
            if not self._goes_on or isinstance(error, JobsCancelledError | UnknownError):
                self.stopped = True


def session_to_write_in(table: OpenTable) -> Any:
    """Return a session that is set as Iceberg's own action sets its: adaptive execution would change how the rows are
    distributed over the files, and deletes of one group are of no use to another.
    """
    session = table.spark._jsparkSession.cloneSession()  # noqa: SLF001 - pyspark's own door to py4j
    session.conf().set("spark.sql.adaptive.enabled", "false")
    session.conf().set("spark.sql.iceberg.executor-cache.delete-files.enabled", "false")
    return session
