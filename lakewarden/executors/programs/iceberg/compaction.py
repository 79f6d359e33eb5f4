"""Compaction: small files, and files with many deletes, become larger ones (`rewrite_data_files`, strategy `binpack`).

If the options say so, it then joins position deletes, and removes deletes that apply to no data file any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import structlog

from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.client.runners import bin_packing
from lakewarden.executors.programs.iceberg.steps.delete_files import DeleteFiles
from lakewarden.executors.programs.iceberg.steps.rewriting import RewriteSteps
from lakewarden.planners.formats.iceberg.backlog.clustered import untouchable
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.view import TableView

log = structlog.get_logger(__name__)


class CompactionSteps(RewriteSteps):
    """The three steps, and the work on delete files after the commit of the data files."""

    def __init__(self, table: OpenTable, options: CompactionOptions) -> None:
        super().__init__(table, options, bin_packing)
        self._deletes = options

    def avoided(self, view: TableView) -> Mapping[str, datetime]:
        """Return the partitions with rows that a writer is changing, and those with recent writes."""
        return untouchable(view.writers, self._table.options, self._deletes, view.observed_at)

    def _follow_up(self, partitions: frozenset[str]) -> None:
        """Rewrite or remove delete files. The run has already succeeded, because its data files are committed. If a
        writer conflicts, the next run does it.
        """
        deletes = DeleteFiles(self._table, self._observations)
        try:
            if self._deletes.rewrite_position_deletes:
                deletes.join_positions(partitions)
            if self._deletes.remove_dangling_deletes:
                deletes.remove_needless()
        except TemporaryError as error:
            log.info("delete_files_kept", run=self._table.assignment.run, reason=str(error))


Compaction = program(CompactionSteps, CompactionOptions)
"""The compaction program. An abort deletes the files that the run has not tried to commit."""
