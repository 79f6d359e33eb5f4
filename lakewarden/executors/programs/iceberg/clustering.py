"""Clustering: the files of a partition are rewritten in an order (`rewrite_data_files`, strategy `sort`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.client.runners import ordering, require_columns
from lakewarden.executors.programs.iceberg.steps.file_groups import FileGroup
from lakewarden.executors.programs.iceberg.steps.rewriting import RewriteSteps
from lakewarden.planners.formats.iceberg.backlog.clustering import is_worth_clustering, ordered_by, remembering
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import ClusteringOptions
from lakewarden.planners.formats.iceberg.rewriting.selection import Thresholds


class ClusteringSteps(RewriteSteps):
    """The three steps, for groups with a file that no clustering has written."""

    everything = True

    def __init__(self, table: OpenTable, options: ClusteringOptions) -> None:
        super().__init__(table, options, ordering(options))
        self._clustering = options
        self._own: set[int] = set()

    def plan(self) -> Plan | NothingToDo:
        """Choose file groups. Raises what any rewrite raises, and PermanentError if a column of the order is gone."""
        require_columns(self._table, self._clustering)
        return super().plan()

    def worthwhile(
        self, groups: Sequence[FileGroup], rules: Thresholds, metadata: TableMetadata
    ) -> Sequence[FileGroup]:
        """Return the groups with enough files that are not in order yet."""
        ordered = ordered_by(metadata)
        return [group for group in groups if is_worth_clustering(group.files, ordered, rules)]

    def properties(self, snapshot: int, now: Mapping[str, str]) -> Mapping[str, str]:
        """Return the property that remembers this snapshot. It shows that its files are in order even after it has
        expired.
        """
        live = {file.snapshot for file in self._observations.everything()} | self._own
        self._own.add(snapshot)
        return remembering(self._observations.metadata(), live, snapshot, now=now)


Clustering = program(ClusteringSteps, ClusteringOptions)
"""The clustering program. An abort deletes the files that the run has not tried to commit."""
