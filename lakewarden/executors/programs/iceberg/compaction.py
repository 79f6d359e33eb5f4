"""Compaction: small files, and files with many deletes, become larger ones (`rewrite_data_files`, strategy `binpack`).

Where the options ask for it, it then joins position deletes, and removes deletes that no data file needs any more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import structlog

from lakewarden.executors.contract import Assignment, Steps
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, open_table
from lakewarden.executors.programs.iceberg.client.runners import bin_packing
from lakewarden.executors.programs.iceberg.steps.delete_files import DeleteFiles
from lakewarden.executors.programs.iceberg.steps.rewriting import RewriteSteps, undertaken
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage

log = structlog.get_logger(__name__)


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

    def _follow_up(self, partitions: frozenset[str]) -> None:
        """Take care of delete files. The run has succeeded already, for its data files are exchanged: where a writer is
        in the way, these are left to the next one.
        """
        deletes = DeleteFiles(self._table, self._looks)
        try:
            if self._deletes.rewrite_position_deletes:
                deletes.join_positions(partitions)
            if self._deletes.remove_dangling_deletes:
                deletes.remove_needless()
        except TemporaryError as error:
            log.info("delete files are left as they are", run=self._table.assignment.run, reason=str(error))
