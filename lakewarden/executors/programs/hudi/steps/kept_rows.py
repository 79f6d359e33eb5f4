"""Rows that a rewrite keeps only if Hudi is told of them, or not at all: partial updates, and rows with an operation.

`MERGE INTO` writes only the changed columns by default, in log blocks that are marked as partial. A log compaction of
1.2.0 loses them (run). Flink's changelog mode keeps a deleted row as a row, with `D` in its `_hoodie_operation`. A
rewrite without `hoodie.allow.operation.metadata.field` drops the column, and deleted rows return (run). No property of
the table shows either. The headers of log blocks and the base files do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.executors.programs.java_errors import each
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.step import Step

_AT_ONCE = 16
_OPERATION = "_hoodie_operation"
_LOG = ".log."
_CHANGES = ".cdc"
"""How log files end that hold the changes of a write for its consumers (`hoodie.table.cdc.enabled`). They hold no rows
of the table, and their blocks cannot be opened as such (run on 1.2.0).
"""


class _Log(NamedTuple):
    """What the headers of a log file's blocks show."""

    file: DataFile
    partial: bool
    operations: bool


def refuse_log_compaction(client: HudiClient, files: Collection[DataFile]) -> None:
    """Raise PermanentError if a log compaction of these files would lose rows."""
    for log in _logs(client, files):
        if log.partial or log.operations:
            what = "partial updates" if log.partial else f"rows with an operation ({_OPERATION})"
            raise PermanentError(
                f"the table has {what}, which Hudi's log compaction loses and a compaction keeps ({log.file.name}): "
                "remove services.log_compaction"
            )


def keep_operations(client: HudiClient, files: Collection[DataFile]) -> bool:
    """Let Hudi keep the operations of the rows in these files. Return whether there is any."""
    found = any(log.operations for log in _logs(client, files)) or _in_base_files(client, files)
    if found:
        client.java.getConfig().setValue("hoodie.allow.operation.metadata.field", "true")
    return found


def _logs(client: HudiClient, files: Collection[DataFile]) -> Iterator[_Log]:
    with translated(Step.PLAN), ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="log-blocks") as threads:
        try:
            logs = sorted(one for one in files if _LOG in one.name and not one.name.endswith(_CHANGES))
            yield from threads.map(lambda file: _read(client, file), logs)
        finally:
            threads.shutdown(cancel_futures=True)


def _read(client: HudiClient, file: DataFile) -> _Log:
    logs = client.hudi.common.table.log
    header = getattr(logs.block, "HoodieLogBlock$HeaderMetadataType")
    named = client.hudi.common.model.HoodieLogFile(_path(client, file))
    partial = operations = False
    reader = logs.HoodieLogFormat.newReader(client.storage, named, None)  # it skips what a block holds
    try:
        for block in each(reader):
            found = block.getLogBlockHeader()
            partial = partial or bool(found.containsKey(header.IS_PARTIAL))
            operations = operations or f'"{_OPERATION}"' in str(found.get(header.SCHEMA))
    finally:
        reader.close()
    return _Log(file, partial, operations)


def _in_base_files(client: HudiClient, files: Collection[DataFile]) -> bool:
    """Whether a row in the base files has an operation. A file without the column costs the reading of its footer."""
    with translated(Step.PLAN):
        return any(_has_operation(client, files, kind) for kind in ("parquet", "orc"))


def _has_operation(client: HudiClient, files: Collection[DataFile], kind: str) -> bool:
    paths = [_path(client, file) for file in files if file.name.endswith(f".{kind}")]
    rows: Any = client.session.read.schema(f"{_OPERATION} string")
    return bool(paths) and not rows.format(kind).load(paths).where(f"{_OPERATION} is not null").isEmpty()


def _path(client: HudiClient, file: DataFile) -> str:
    return f"{client.base}/{file.partition}/{file.name}" if file.partition else f"{client.base}/{file.name}"
