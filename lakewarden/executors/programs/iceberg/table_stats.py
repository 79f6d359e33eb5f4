"""Table stats: statistics of the current snapshot for optimizers (`compute_table_stats`, `compute_partition_stats`).

Iceberg's actions compute and commit in one call. Here the files are written in `execute`, where they are not visible
yet. One commit names both. It adds no snapshot and touches no file of the table. At most one retry of a writer is the
result.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.iceberg.client.commit import moved
from lakewarden.executors.programs.iceberg.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.client.statistics import columns_of, partition_statistics, sketches, written
from lakewarden.executors.programs.iceberg.steps.rewriting import session_to_write_in
from lakewarden.planners.formats.iceberg.metadata.metadata import waits
from lakewarden.planners.formats.iceberg.metadata.timeline import has_statistics, statistics_file
from lakewarden.planners.formats.iceberg.options.service_options import TableStatsOptions
from lakewarden.planners.model.errors import UnknownError, YieldError
from lakewarden.planners.model.instant import Step


class TableStatsSteps:
    """The three steps, and the abort."""

    def __init__(self, table: OpenTable, options: TableStatsOptions) -> None:
        self._table = table
        self._options = options
        self._began = table.clock.now()
        self._snapshot: Any = None
        self._columns: Sequence[str] = ()
        self._made: list[str] = []
        self._statistics: Any = None
        self._of_partitions: Any = None

    def plan(self) -> Plan | NothingToDo:
        """Choose the snapshot and the columns. Raises PermanentError if the table does not have one of the columns."""
        metadata = self._table.metadata()
        if metadata.current is None:
            return NothingToDo(reason="nothing was ever committed to the table")
        if has_statistics(metadata, metadata.current):
            return NothingToDo(reason=f"the current snapshot {metadata.current} has its statistics")
        with translated(Step.PLAN):
            self._snapshot = self._table.java.currentSnapshot()
        self._columns = columns_of(self._table, self._options.columns, self._snapshot)
        if not self._columns:
            return NothingToDo(reason="the columns to count were added after the current snapshot")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Compute the statistics, and write them to files that no metadata names."""
        snapshot = int(self._snapshot.snapshotId())
        run = str(self._table.assignment.run)
        with translated(Step.EXECUTE):
            session = session_to_write_in(self._table)
            blobs = sketches(self._table, session, self._snapshot, self._columns)
            name = statistics_file(snapshot, run, self._began)
            path = str(self._table.java.operations().metadataFileLocation(name))
            self._made.append(path)
            self._statistics = written(self._table, path, snapshot, blobs)
            if self._options.partition_stats:
                self._of_partitions = partition_statistics(self._table, snapshot)
            if self._of_partitions is not None:
                self._made.append(str(self._of_partitions.path()))

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Let the table name the files, if the table does not change between the last check and the commit."""
        made, self._made = self._made, []
        try:
            self._commit()
        except UnknownError:
            raise
        except Exception:
            self._made = made
            raise
        files = [file for file in (self._statistics, self._of_partitions) if file is not None]
        return {
            "columns": len(self._columns),
            "files": len(files),
            "bytes": sum(int(file.fileSizeInBytes()) for file in files),
        }

    def abort(self) -> None:
        """Delete the files that the run has not tried to commit."""
        made, self._made = self._made, []
        for path in made:
            with on_the_way_out("delete statistics that were not committed"):
                self._table.java.io().deleteFile(path)

    def _commit(self) -> None:
        """Move the pointer to metadata that names the files. Raises YieldError if the snapshot has expired, or if the
        pointer had moved at each attempt.
        """
        tries = tuple(waits(dict(self._table.java.properties())))
        for wait in tries:
            time.sleep(wait)
            with translated(Step.EXECUTE):
                base = self._table.java.operations().refresh()
                if base.snapshot(self._snapshot.snapshotId()) is None:
                    raise YieldError("the snapshot of the computed statistics has expired")
                builder = self._table.jvm.org.apache.iceberg.TableMetadata.buildFrom(base)
                builder = builder.setStatistics(self._statistics)
                if self._of_partitions is not None:
                    builder = builder.setPartitionStatistics(self._of_partitions)
                updated = builder.build()
            if moved(self._table, base, updated):
                return
        raise YieldError(f"the table moved on during each of {len(tries)} attempts to commit")


TableStats = program(TableStatsSteps, TableStatsOptions)
"""The program. An abort deletes the files that the run has not tried to commit."""
