"""Writes file groups anew, several at a time, by Spark jobs with the name of the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lakewarden.executors.programs.iceberg.client.errors import JobsCancelledError, on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.client.runners import MakeRunner
from lakewarden.executors.programs.iceberg.steps.balance import require_balance
from lakewarden.executors.programs.iceberg.steps.file_groups import MadeGroup, each
from lakewarden.executors.programs.tasks import carry_out
from lakewarden.planners.model.errors import LakewardenError, UnknownError
from lakewarden.planners.model.step import Step


class Writing:
    """The writing of some file groups: which groups were `written`, and the errors of the others.

    With `goes_on` the other groups are still written after one has failed. Without it no further group is begun. If the
    run was cancelled, or its JVM is gone (`stopped`), no group is begun in any case.
    """

    def __init__(
        self, table: OpenTable, groups: Sequence[MadeGroup], make_runner: MakeRunner, *, goes_on: bool
    ) -> None:
        self.written: list[MadeGroup] = []
        self.failures: list[Exception] = []
        self.stopped = False
        self._table = table
        self._goes_on = goes_on
        self._groups = tuple(groups)
        with translated(Step.PLAN):  # an error here occurs again at every try
            self._session = session_to_write_in(table)
            self._runner = make_runner(table, self._session)
            self._runner.init(table.java_map({}))

    def carry_out(self, *, at_a_time: int) -> None:
        """Write the groups. Return when no thread is writing any more."""
        errors = carry_out(self._groups, self._write, at_a_time=at_a_time, stops=self._stops)
        self.failures, self.stopped = errors.failures, errors.stopped

    def _write(self, group: MadeGroup) -> None:
        with translated(Step.EXECUTE):
            self._table.jvm.org.apache.spark.sql.SparkSession.setActiveSession(self._session)
            group.java.setOutputFiles(self._runner.rewrite(group.java))
        try:
            require_balance(self._table, group)
        except LakewardenError:
            discard(self._table, [group])
            raise
        self.written.append(group)

    def _stops(self, error: Exception) -> bool:
        return not self._goes_on or isinstance(error, JobsCancelledError | UnknownError)


def discard(table: OpenTable, groups: Sequence[MadeGroup]) -> None:
    """Delete the new files of groups that were not committed."""
    for group in groups:
        with on_the_way_out("delete what was written"):
            for file in each(group.java.addedFiles()):
                table.java.io().deleteFile(str(file.location()))


def session_to_write_in(table: OpenTable) -> Any:
    """Return a session with the settings that Iceberg's own action uses. Adaptive execution would change how rows are
    distributed over the files, and deletes of one group do not help another. Names are those of the table's schema: two
    columns may differ only by the case of their letters.
    """
    session = table.spark._jsparkSession.cloneSession()  # noqa: SLF001 - pyspark's own access to py4j
    session.conf().set("spark.sql.adaptive.enabled", "false")
    session.conf().set("spark.sql.caseSensitive", "true")
    session.conf().set("spark.sql.iceberg.executor-cache.delete-files.enabled", "false")
    return session
