"""Compaction: small files, and files with many deletes, become larger ones (`rewrite_data_files`, strategy `binpack`).

If the options say so, it then removes the deletes that apply to no data file any more, by a commit of its own.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from typing import Any

import structlog

from lakewarden.executors.programs.iceberg.client.commit import Proposed, exchange, signature
from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable, program
from lakewarden.executors.programs.iceberg.client.runners import bin_packing
from lakewarden.executors.programs.iceberg.steps.file_groups import each
from lakewarden.executors.programs.iceberg.steps.rewriting import RewriteSteps
from lakewarden.planners.formats.iceberg.metadata.digests import key_of
from lakewarden.planners.formats.iceberg.metadata.metadata import waits
from lakewarden.planners.formats.iceberg.options.service_options import CompactionOptions
from lakewarden.planners.formats.iceberg.rewriting.deletes import needless
from lakewarden.planners.model.errors import TemporaryError, YieldError
from lakewarden.planners.model.instant import Step

log = structlog.get_logger(__name__)


class CompactionSteps(RewriteSteps):
    """The three steps, and the work on delete files after the commit of the data files."""

    def __init__(self, table: OpenTable, options: CompactionOptions) -> None:
        super().__init__(table, options, bin_packing)
        self._removes_needless = options.remove_dangling_deletes

    def _follow_up(self) -> None:
        """Remove needless delete files, as often as the table's `commit.retry.*` allow. The run has already succeeded,
        because its data files are committed. If others commit between each time, the next run does it.
        """
        for wait in waits(dict(self._table.java.properties())) if self._removes_needless else ():
            time.sleep(wait)
            try:
                return self._remove_needless()
            except TemporaryError as error:
                log.info("delete_files_kept", run=self._table.assignment.run, reason=str(error))
                if not isinstance(error, YieldError):
                    return None
        return None

    def _remove_needless(self) -> None:
        """Remove the delete files that no data file needs. They are found from the manifests without a scan. Raises
        YieldError unless the table is still at the snapshot that was read.
        """
        self._observations.observe()
        seen = self._observations.metadata()
        keys = frozenset(file.key for file in needless(self._observations.everything(), seen.specs))
        if not keys:
            return

        def upon_what_was_seen(proposed: Proposed) -> None:
            if proposed.parent != seen.current:
                raise YieldError("others committed while needless delete files were looked for")

        with translated(Step.EXECUTE):
            update = self._table.java.newRewrite()
            for key, value in signature(self._table.assignment).items():
                update.set(key, value)
            for file in self._java_files(keys):
                update.deleteFile(file)
        exchange(self._table, update, upon_what_was_seen)

    def _java_files(self, keys: Collection[int]) -> Iterator[Any]:
        """Yield these delete files as Iceberg's own objects, from the manifests of the last observation that
        list them.
        """
        java, named = self._table.java, self._observations.manifests_with(keys)
        for manifest in each(java.currentSnapshot().deleteManifests(java.io())):
            if manifest.path() not in named:
                continue
            reader = self._table.jvm.org.apache.iceberg.ManifestFiles.readDeleteManifest(
                manifest, java.io(), java.specs()
            )
            try:
                yield from (file.copy() for file in each(reader) if key_of(str(file.location())) in keys)
            finally:
                reader.close()


Compaction = program(CompactionSteps, CompactionOptions)
"""The compaction program. An abort deletes the files that the run has not tried to commit."""
