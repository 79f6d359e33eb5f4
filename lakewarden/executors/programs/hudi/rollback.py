"""Rollback: the unfinished work of dead writers is undone, and unfinished rollbacks are finished.

A clean would also roll writes back, but all at once and by a window of its own. Here only writes are undone that were
proved dead, one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import ProgramSteps, pending_plan, program
from lakewarden.planners.formats.hudi.metadata.heartbeats import dead_since
from lakewarden.planners.formats.hudi.options.service_options import RollbackOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.settings import format_duration

_SETTINGS = {"hoodie.rollback.avoid.duplicate.plan": "true"}
_OF_SERVICES = frozenset({"compaction", "logcompaction", "clustering"})


class RollbackSteps(ProgramSteps[RollbackOptions]):
    """The steps."""

    def plan(self) -> Plan | NothingToDo:
        """Take up the pending rollback that was assigned, or look for writes of dead writers."""
        instant = self._table.assignment.instant
        if instant is not None:
            self._target(instant)
            return Plan(instant=instant)
        if not self._dead_writes():
            silence = format_duration(self._table.options.dead_after)
            return NothingToDo(reason=f"no write in flight has a heartbeat that was silent for {silence}")
        return Plan(instant=None)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Finish the assigned rollback, or undo every write that is dead now, the newest first, as Hudi does."""
        client = self._table.client
        self._table.before_a_commit()
        if plan.instant is not None:
            target = self._target(plan.instant)
            with translated(Step.COMMIT):
                return {"writes_rolled_back": int(client.finish_rollback(target))}
        undone = 0
        for write in reversed(self._dead_writes()):
            with translated(Step.COMMIT):
                undone += self._table.roll_back(write)
        return {"writes_rolled_back": undone}

    def _dead_writes(self) -> Sequence[str]:
        """Return the writes that count as dead: silent for too long, or too old to be alive without a heartbeat."""
        view, now = self._table.view(), self._table.clock.now()
        dead_after, without_heartbeat = self._table.options.dead_after, self._options.without_heartbeat_after
        return [
            write.time
            for write in view.writers.in_flight
            if dead_since(write, now=now, dead_after=dead_after, without_heartbeat_after=without_heartbeat) is not None
        ]

    def _target(self, instant: str) -> str:
        """Return the write that the pending rollback `instant` undoes."""
        pending_plan(self._table.view(), Service.ROLLBACK, instant)
        target = self._table.rollback_target(instant)
        if target.action in _OF_SERVICES:
            raise TemporaryError(
                f"rollback {instant} undoes {target.action} {target.time}: the next {target.action} finishes it",
                delay=self._table.options.dead_after,
            )
        return target.time


Rollback = program(RollbackSteps, RollbackOptions, settings=lambda *_: _SETTINGS)
"""The rollback program. An abort leaves everything as it is."""
