"""Deleted keys that come back while a compaction is under way.

The indexes SIMPLE and BLOOM, which are Spark's defaults, look for keys in base files only. Between the plan of a
compaction and its commit they find a deleted key in the old base file, and the writer appends its new row to that file
group's log. Once the compaction is committed, the new base file lacks the key. The next write of the key does not find
it, and inserts it into another file group. From then on it is there twice (docs/hudi.md; run on Hudi alone).

So a compaction that drops rows is committed while the table's lock is held. It leaves out each file group with a
dropped key that has a row in a log file which the compaction does not merge, and each one that a write in flight may
touch. Such a file group stays as it was, and the next compaction takes the row in. Below table version 8 nothing can be
left out: its newer log files bear the time of the plan, and no reader sees them without a base file of that time (run).
There the run waits for the writes in flight, and an operator has to pause the writers if a key has come back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.executors.programs.hudi.client.returned_keys import (
    DroppedKeys,
    NewBase,
    has_keys_in_parquet,
    returned_key,
    with_dropped_rows,
    written_since,
)
from lakewarden.executors.programs.hudi.client.write_client import LOG_FILES_BEAR_THEIR_COMMITS_FROM
from lakewarden.executors.programs.hudi.steps.listings import alone_between_writes
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.formats.hudi.writers.activity import how_to_end, meeting
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Step

_UNTIL_A_GAP = timedelta(seconds=30)
Figures = Mapping[str, int | float | str]


def commit_without_returning_keys(
    table: OpenTable,
    instant: str,
    statuses: Any,
    compacted: Collection[DataFile],
    commit: Callable[[Collection[NewBase]], Figures],
) -> Figures:
    """Commit a compaction after its new files are written. `commit` is called under the table's lock, with the file
    groups that it leaves out.

    Below table version 8 it leaves out none: raises YieldError if there is no moment without a write that may touch
    their partitions, and PermanentError if a dropped key has come back.
    """
    with translated(Step.COMMIT):
        groups = with_dropped_rows(statuses) if table.options.looks_for_returning_keys else ()
    if not groups:
        with table.alone():
            return commit(())
    with translated(Step.COMMIT):
        dropped = DroppedKeys(table.client, groups, compacted) if has_keys_in_parquet(table.client) else None
    with contextlib.nullcontext() if dropped is None else contextlib.closing(dropped):
        search = _Search(table, instant, groups, dropped)
        returned = search.run()  # most of the log files are read before the lock is taken
        whole = table.client.table_version < LOG_FILES_BEAR_THEIR_COMMITS_FROM
        if whole and returned:
            raise _not_left_out(table, returned)
        partitions = {group.partition for group in groups if group not in returned}
        with alone_between_writes(
            table,
            lambda view: meeting(view.writers, partitions, view.observed_at),
            why=_why if whole else None,
            within=_UNTIL_A_GAP,
        ) as view:
            returned = search.run()
            if whole and returned:
                raise _not_left_out(table, returned)
            return commit(
                [
                    group
                    for group in groups
                    if group in returned or meeting(view.writers, {group.partition}, view.observed_at)
                ]
            )


def _not_left_out(table: OpenTable, returned: Mapping[NewBase, str]) -> PermanentError:
    return PermanentError(
        f"{_HAZARD}, and {next(iter(returned.values()))} was written again since its plan, which no other plan can "
        f"replace in a table of version {table.client.table_version}: stop the writers, declare "
        "options.returning_keys: trusted, release the service (lakewarden quarantine release "
        f"{table.assignment.table} compaction), and run compactions until there is nothing to compact; then set it to "
        "checked, and start them"
    )


def _why(write: Instant) -> str:
    """Return why the commit waits for a write in flight, and what an operator does."""
    index = "" if write.guarded_until is None else f"; or {_OTHER_INDEX}"
    return f"{_HAZARD}, and write {write.time} in flight may bring one back: {how_to_end(write)}{index}"


_HAZARD = "the compaction drops deleted rows"
_OTHER_INDEX = "give all writers another index, and declare it (options.returning_keys)"


class _Search:
    """Looks for dropped keys in the log files of the file groups. It reads each log file once. If the keys are not
    known, each of the log files may have one.
    """

    def __init__(self, table: OpenTable, instant: str, groups: Sequence[NewBase], dropped: DroppedKeys | None) -> None:
        self._table = table
        self._instant = instant
        self._groups = groups
        self._dropped = dropped
        self._logs: set[tuple[str, int]] = set()
        self._returned: dict[NewBase, str] = {}

    def run(self) -> Mapping[NewBase, str]:
        """Return in words what was written again, by file group, by the log files that there are now."""
        client = self._table.client
        with translated(Step.COMMIT):
            for group, logs in written_since(client, self._instant, self._groups).items():
                new = [path for path, length in logs.items() if (path, length) not in self._logs]
                if group in self._returned or not new:
                    continue
                if self._dropped is None:
                    self._returned[group] = f"perhaps one of their keys (file group {group.file_id!r} stores none)"
                elif (key := returned_key(client, new, self._dropped.of(group.partition))) is not None:
                    self._returned[group] = f"key {key!r}"
                self._logs |= logs.items()
        return self._returned
