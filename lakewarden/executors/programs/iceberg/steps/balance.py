"""The rows of a file group before and after it was rewritten, as the files' own footers count them.

Iceberg refuses a rewrite that adds rows according to the manifests, and none that loses rows. Rows are lost if a
manifest is wrong: a reader skips what lies before the first of its `split_offsets`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from lakewarden.executors.programs.iceberg.client.errors import translated
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.steps.file_groups import MadeGroup, each
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.step import Step
from lakewarden.planners.storage.content import read_ahead

log = structlog.get_logger(__name__)

_ANEW = (
    "copy it under a new name, remove it from the table, and add the copy with a current release of Iceberg "
    "(add_files), which reads the footer. Do not add the file itself again: a later expiry would delete it"
)


def require_balance(table: OpenTable, group: MadeGroup) -> None:
    """Raise PermanentError if the new files of a group do not have the rows of the old ones, or if an old file has more
    rows than its manifest claims: Iceberg would refuse the commit.

    The old files are counted after Spark has read them. Before that, a store that hangs would be waited for here, where
    no cancellation ends it.
    """
    least, most = _expected(table, group)
    with translated(Step.EXECUTE):
        written = {str(file.location()): file for file in each(group.java.addedFiles())}
    rows = sum(_counted(table, written).values())
    if least <= rows <= most:
        return
    where = ", ".join(sorted(group.known.partitions - {""})) or "the table"
    several = f"{least}" if least == most else f"{least} to {most}"
    raise PermanentError(
        f"the files of {where} have {several} rows by their own footers, and the rewrite wrote {rows}: nothing is "
        "committed. A manifest may have wrong split_offsets, and then every engine skips rows. Compare the files with "
        f"what the table shows of them; if one has more rows, {_ANEW}"
    )


def _expected(table: OpenTable, group: MadeGroup) -> tuple[int, int]:
    """Return how many rows the old files of a group have without those that are deleted: at least, and at most. Delete
    files may delete a row twice.
    """
    with translated(Step.EXECUTE):
        tasks = {str(task.file().location()): task for task in each(group.java.fileScanTasks())}
    counted = _counted(table, {path: task.file() for path, task in tasks.items()})
    least = most = 0
    for path, task in tasks.items():
        with translated(Step.EXECUTE):
            claimed, deletes = int(task.file().recordCount()), [_deleted(one) for one in task.deletes()]
        rows = counted[path]
        if rows > claimed:
            raise PermanentError(
                f"{path} has {rows} rows, and its manifest claims {claimed}: Iceberg refuses a rewrite that seems to "
                f"add rows. {_ANEW.capitalize()}"
            )
        if rows < claimed:
            log.warning("manifest_claims_more_rows", file=path, rows=rows, claimed=claimed)
        exact = sum(one.rows for one in deletes if one.is_exact)
        most += rows - exact
        least += max(0, rows - exact - sum(one.rows for one in deletes if not one.is_exact))
    return least, most


@dataclass(frozen=True, kw_only=True, slots=True)
class _Deleted:
    """How many rows of a data file a delete file deletes: so many, or at most so many."""

    rows: int
    is_exact: bool


def _deleted(delete: Any) -> _Deleted:
    if str(delete.content()) == "EQUALITY_DELETES":  # one delete may concern all rows
        return _Deleted(rows=2**63, is_exact=False)
    return _Deleted(rows=int(delete.recordCount()), is_exact=str(delete.format()) == "PUFFIN")


def _counted(table: OpenTable, files: Mapping[str, Any]) -> Mapping[str, int]:
    return dict(read_ahead(files, lambda path: _rows_of(table, path, files[path])))


def _rows_of(table: OpenTable, path: str, file: Any) -> int:
    """Return how many rows a data file has, from its footer or the headers of its blocks. The store says how long the
    file is.
    """
    iceberg = table.jvm.org.apache.iceberg
    with translated(Step.EXECUTE):
        content = table.java.io().newInputFile(path)
        match str(file.format()):
            case "PARQUET":
                return int(
                    iceberg.parquet.ParquetUtil.fileMetrics(content, iceberg.MetricsConfig.getDefault()).recordCount()
                )
            case "ORC":
                return int(iceberg.orc.OrcMetrics.fromInputFile(content).recordCount())
            case "AVRO":
                return int(iceberg.avro.Avro.rowCount(content))
            case _:
                return int(file.recordCount())
