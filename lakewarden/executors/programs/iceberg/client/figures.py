"""The figures of a run, from the summaries of the snapshots with its name."""

from __future__ import annotations

from collections.abc import Mapping

import structlog

from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.planners.formats.iceberg.metadata.timeline import RUN_ID
from lakewarden.planners.model.errors import LakewardenError

log = structlog.get_logger(__name__)

_SUMMED = {
    "files_rewritten": "deleted-data-files",
    "files_added": "added-data-files",
    "bytes_rewritten": "removed-files-size",
    "delete_files_removed": "removed-delete-files",
}


def figures_of(table: OpenTable) -> Mapping[str, int]:
    """Return the figures of the run that has the table open. They are empty if the table cannot be read now. Its
    commits count all the same.
    """
    try:
        snapshots = table.metadata().snapshots
    except LakewardenError as error:
        log.warning("figures_unreadable", run=table.assignment.run, reason=str(error))
        return {}
    ours = [one for one in snapshots if one.summary.get(RUN_ID) == table.assignment.run]
    summed = {name: sum(one.count(key) for one in ours) for name, key in _SUMMED.items()}
    return {**summed, "commits": len(ours)}
