"""Compaction: small files, and files with many deletes, become larger ones (`rewrite_data_files`, strategy `binpack`).

Where the options ask for it, it then removes deletes that no data file needs any more, and joins position deletes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from lakewarden.executors.contract import Assignment, Step, Steps
from lakewarden.executors.programs.iceberg.errors import translated
from lakewarden.executors.programs.iceberg.opened import OpenTable, open_table
from lakewarden.executors.programs.iceberg.rewriting import RewriteSteps, undertaken
from lakewarden.executors.programs.iceberg.runners import bin_packing
from lakewarden.executors.programs.iceberg.signature import signed
from lakewarden.planners.formats.iceberg.cold import left_alone
from lakewarden.planners.formats.iceberg.service_options import CompactionOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage


class Compaction:
    """The compaction program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table for one run. An abort deletes what the run itself has written, and never tried to commit."""
        options = CompactionOptions.model_validate(dict(assignment.service_options))
        with (
            open_table(session, assignment, storage, clock=self._clock) as table,
            undertaken(CompactionSteps(table, options)) as steps,
        ):
            yield steps


class CompactionSteps(RewriteSteps):
    """The three steps, with what follows the exchange of the data files."""

    def __init__(self, table: OpenTable, options: CompactionOptions) -> None:
        super().__init__(table, options, bin_packing)
        self._deletes = options

    def avoided(self, view: TableView) -> Mapping[str, datetime]:
        """Return the partitions whose rows a writer changes these days."""
        return left_alone(view.writers, self._table.options, view.observed_at)

    def _follow_up(self) -> None:
        """Take care of delete files. The run has succeeded already: its data files are exchanged."""
        with translated(Step.COMMIT):
            self._table.java.refresh()
            total = self._table.java.currentSnapshot().summary().getOrDefault("total-delete-files", "0")
            if int(total) == 0:
                return
            actions, run = self._table.actions, self._table.assignment
            if self._deletes.remove_dangling_deletes:
                signed(actions.removeDanglingDeleteFiles(self._table.java), run).execute()
            if self._deletes.rewrite_position_deletes:
                signed(actions.rewritePositionDeletes(self._table.java), run).execute()
