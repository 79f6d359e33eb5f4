"""Deleted keys that come back while a compaction is under way.

The indexes SIMPLE and BLOOM, which are Spark's defaults, look for keys in base files only. Between the plan of a
compaction and its commit they find a deleted key in the old base file, and the writer appends its new row to that file
group's log. Once the compaction is committed, the new base file lacks the key. The next write of the key does not find
it, and inserts it into another file group. From then on it is there twice (docs/safety.md; run on Hudi alone).

So a compaction that drops rows is committed while the table's lock is held, no write in flight may touch its
partitions, and no dropped key has a row in a log file that the compaction does not merge. If there is such a key, the
plan is withdrawn. The next plan takes the row in. If writers leave no moment to withdraw the plan, a file beside the
table names it. The next run does not execute it again, and only tries to withdraw it. Below table version 8 a plan with
newer log files is never withdrawn (`HudiClient.remove_plan`), and an operator has to pause the writers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, TypeVar

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
from lakewarden.executors.programs.hudi.steps.gaps import alone_between_writes
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.formats.hudi.metadata.table_properties import HOME
from lakewarden.planners.formats.hudi.writers.beside import how_to_end, keeps_plan, meeting
from lakewarden.planners.model.errors import PermanentError, YieldError
from lakewarden.planners.model.instant import Instant
from lakewarden.planners.model.step import Step

_UNTIL_A_GAP = timedelta(seconds=30)
_Committed = TypeVar("_Committed")


def commit_without_returning_keys(
    table: OpenTable, instant: str, statuses: Any, compacted: Collection[DataFile], commit: Callable[[], _Committed]
) -> _Committed:
    """Commit a compaction after its new files are written.

    Raises YieldError if a dropped key has come back, and if there is no moment without a write that may touch its
    partitions. In the first case the plan is withdrawn. Below table version 8 it cannot be: raises PermanentError.
    """
    if not table.options.looks_for_returning_keys:
        return commit()
    with translated(Step.COMMIT):
        groups = with_dropped_rows(statuses)
        if not groups:
            return commit()
        dropped = DroppedKeys(table.client, groups, compacted) if has_keys_in_parquet(table.client) else None
    with contextlib.nullcontext() if dropped is None else contextlib.closing(dropped):
        search = _Search(table, instant, groups, dropped)
        found = search.run()  # most of the log files are read before the lock is taken
        if found is None:
            partitions = {group.partition for group in groups}
            with alone_between_writes(
                table,
                lambda view: meeting(view.writers, partitions, view.observed_at),
                why=_why,
                within=_UNTIL_A_GAP,
            ):
                found = search.run()
                if found is None:
                    return commit()
    if table.client.table_version < LOG_FILES_BEAR_THEIR_COMMITS_FROM:
        raise PermanentError(
            f"{_HAZARD}, and {found} was written again since its plan, which no other plan can replace in a table of "
            f"version {table.client.table_version}: stop the writers, declare options.returning_keys: trusted, release "
            f"the service (lakewarden quarantine release {table.assignment.table} compaction), and run compactions "
            "until there is nothing to compact; then set it to checked, and start them"
        )

    def undo(plan: str) -> bool:
        table.client.undo_rewrite(plan)
        return table.client.remove_plan(plan)

    table.refuse_foreign_plans()
    with translated(Step.COMMIT):
        raise _withdrawn(table, instant, found, by=undo)


def withdraw_if_known(table: OpenTable, instant: str) -> None:
    """Withdraw a plan before it is executed, if an earlier run has found that a dropped key came back. Raises
    YieldError then, also if the plan cannot be withdrawn. Of an earlier attempt without a heartbeat the files are
    undone.
    """
    if not table.options.looks_for_returning_keys or _named(table) != instant:
        return
    table.before_a_commit()
    with translated(Step.EXECUTE):
        if table.assignment.predecessor_dead:
            table.client.remove_heartbeat(instant)
        table.client.undo_attempt(instant)
        raise _withdrawn(table, instant, "one of their keys")


def _withdrawn(table: OpenTable, instant: str, found: str, *, by: Callable[[str], bool] | None = None) -> YieldError:
    """Remove the plan, and return how the run ends. If there is no moment without a write soon, leave the plan, and
    name it beside the table.
    """
    if table.withdraw(instant, by=by):
        what = "its plan is made anew"
    else:
        table.client.note(_TO_WITHDRAW, instant)
        seen = table.observations.seen
        what = keeps_plan(() if seen is None else seen.writes_in_flight(), table.clock.now())
    return YieldError(f"{_HAZARD}, and {found} was written again since its plan; {what}")


def _named(table: OpenTable) -> str | None:
    """Return the plan that an earlier run could not withdraw."""
    try:
        said = table.storage.read(f"{table.assignment.location}/{HOME}/{_TO_WITHDRAW}", limit=64)
    except (FileNotFoundError, PermanentError):  # Lakewarden has not written it
        return None
    return said.decode(errors="replace")


def _why(write: Instant) -> str:
    """Return why the commit waits for a write in flight, and what an operator does."""
    index = "" if write.guarded_until is None else f"; or {_OTHER_INDEX}"
    return f"{_HAZARD}, and write {write.time} in flight may bring one back: {how_to_end(write)}{index}"


_HAZARD = "the compaction drops deleted rows"
_OTHER_INDEX = "give all writers another index, and declare it (options.returning_keys)"
_TO_WITHDRAW = ".lakewarden/to_withdraw"
"""The file below HOME with the time of the plan that a run could not withdraw. Hudi reads no file there."""


class _Search:
    """Looks for dropped keys in the log files of the file groups. It reads each log file once. If the keys are not
    known, each of the log files may have one.
    """

    def __init__(self, table: OpenTable, instant: str, groups: Sequence[NewBase], dropped: DroppedKeys | None) -> None:
        self._table = table
        self._instant = instant
        self._groups = groups
        self._dropped = dropped
        self._known: set[tuple[str, int]] = set()

    def run(self) -> str | None:
        """Return what was written again, by the log files that there are now. None if nothing was."""
        client = self._table.client
        with translated(Step.COMMIT):
            for group, logs in written_since(client, self._instant, self._groups).items():
                new = [path for path, length in logs.items() if (path, length) not in self._known]
                if self._dropped is None and new:
                    return f"perhaps one of their keys (file group {group.file_id!r} does not store them)"
                found = None if self._dropped is None else returned_key(client, new, self._dropped.of(group.partition))
                if found is not None:
                    return f"key {found!r}"
                self._known |= logs.items()
        return None
