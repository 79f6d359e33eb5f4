"""Partition commit: a partition that is done gets Paimon's file `_SUCCESS`, which says so.

The plan is a list of partitions in the memory of the worker. Nothing of it is written down, because the table shows
what is left to do: after a kill each partition has its marker or has none, and the next run finds those without.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog

from lakewarden.executors import points
from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.programs.paimon.client.opened import OpenTable, program
from lakewarden.executors.programs.paimon.steps.old_files import mark
from lakewarden.planners.formats.paimon.observing import Look
from lakewarden.planners.formats.paimon.options.service_options import PartitionCommitOptions
from lakewarden.planners.formats.paimon.partitions.expiry import Marking, called, marking_of
from lakewarden.planners.formats.paimon.partitions.names import PaimonPartition
from lakewarden.planners.formats.paimon.partitions.serving import rule_of_marking
from lakewarden.planners.model.errors import NotYetError, PermanentError, YieldError

log = structlog.get_logger(__name__)

_LEAST_REST = timedelta(seconds=10)
_REST = timedelta(minutes=1)


class PartitionCommitSteps:
    """The three steps. The second does nothing."""

    def __init__(self, table: OpenTable, options: PartitionCommitOptions) -> None:
        self._table = table
        self._options = options
        self._chosen: Sequence[PaimonPartition] = ()
        self._more = False

    def plan(self) -> Plan | NothingToDo:
        """Look at all partitions, and choose those that are to be marked."""
        look = self._table.free_look(PermanentError, partitions=True)
        marking = self._judged(look)
        if not marking.due:
            why = f" ({marking.waits[0]})" if marking.waits else ""
            at = marking.next_at
            rest = _LEAST_REST if at is None else max(_LEAST_REST, at - self._table.clock.now())
            return NothingToDo(reason=f"no partition is to be marked as done{why}", again=rest)
        self._chosen = marking.due[: self._options.max_partitions]
        self._more = len(marking.due) > len(self._chosen) or marking.left > 0
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Do nothing: each partition is judged again right before its marker is written."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Look at the table again, and mark those partitions that are still done.

        The time of a marker is that of the look: rows that come after it are late, and the partition is marked again.
        """
        look = self._table.free_look(YieldError, partitions=True)
        newest = look.facts.history.newest
        due = {partition.row for partition in self._judged(look).due}
        written, refusals = 0, list[PermanentError]()
        for partition in self._chosen:
            if partition.row not in due or newest is None:
                log.info("partition_not_committed", table=self._table.table.id, partition=called(partition))
                continue
            points.require_wanted(self._table.assignment.run)
            try:
                written += mark(self._table, partition, at=look.facts.now, snapshot=newest.id)
            except PermanentError as refusal:
                refusals.append(refusal)
        if refusals:
            raise refusals[0]
        if not written:
            raise NotYetError("no partition of the plan could be marked: the log says why", delay=_REST)
        left = len(self._chosen) - written
        return {"partitions_committed": written, "partitions_left": left, **({GOES_ON: 1} if self._more else {})}

    def _judged(self, look: Look) -> Marking:
        facts = look.facts
        try:
            rule = rule_of_marking(self._table.table, facts)
        except ValueError as wrong:
            raise PermanentError(f"the options of the table about its partitions are not read here: {wrong}") from wrong
        if rule is None:
            raise PermanentError("neither idle_time nor partition.idle-time-to-done is set")
        if facts.changes is None:
            return Marking(due=(), marked=0, left=0, waits=(), next_at=None)
        return marking_of(
            look.totals,
            facts.schema,
            facts.changes,
            rule,
            facts.now,
            location=self._table.table.location,
            storage=self._table.storage,
            known={},
        )


PartitionCommit = program(PartitionCommitSteps, PartitionCommitOptions)
"""The program. An abort leaves everything as it is."""
