"""Savepoints on a schedule: the newest commit that can be saved is saved, and our expired savepoints are removed.

Both happen in one hold of the table's lock, in which no client begins, commits or plans. The run acts on what it reads
there. So no restore, rollback or clean interferes, and the maker of each savepoint is read from its own metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import ProgramSteps, program
from lakewarden.planners.formats.hudi.metadata import savepoints
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFiles
from lakewarden.planners.formats.hudi.metadata.savepoints import Savable, Savepoint
from lakewarden.planners.formats.hudi.options.service_options import SavepointOptions
from lakewarden.planners.model.errors import YieldError
from lakewarden.planners.model.instant import State, Step

_IN_THE_WAY = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT)
"""While one of these is pending, nothing shows which files a savepoint would hold, or whether one is needed."""
_SOON = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    """The existing savepoints, and the commit to be saved."""

    there: Sequence[Savepoint]
    savable: Savable

    @property
    def new(self) -> str | None:
        """The commit to be saved; None if it has a savepoint of any maker, or if there is none."""
        commit = self.savable.commit
        return None if commit in {savepoint.time for savepoint in self.there} else commit


class SavepointSteps(ProgramSteps[SavepointOptions]):
    """The steps."""

    def plan(self) -> Plan | NothingToDo:
        """Undo what a dead run has left, and say what there is to do."""
        location, storage = self._table.assignment.location, self._table.storage
        if savepoints.left_half_way(location, storage) is not None:
            with translated(Step.PLAN), self._table.client.locked():
                self._take_back()
        state = self._read()
        if state.new is None and not self._expired(state.there):
            saved = "" if state.savable.commit is None else ", has a savepoint"
            return NothingToDo(reason=f"{state.savable.reason}{saved}, and none of ours has expired")
        return Plan(instant=None)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Take the savepoint, and remove our expired ones. Raises YieldError while an instant is pending that affects
        them.
        """
        self._table.view()  # the timeline under the lock has to show this as well
        client, run = self._table.client, self._table.assignment.run
        with translated(Step.COMMIT), client.locked():
            self._take_back()
            state = self._read()
            if state.new is not None:
                client.savepoint(state.new, user=savepoints.USER, comment=savepoints.comment(run))
                self._table.reach(Point.SAVED)
                state = self._read()
            gone = self._expired(state.there)
            for savepoint in gone:
                client.remove_savepoint(savepoint.time)
        return {"savepoints_removed": len(gone)}

    def _take_back(self) -> None:
        """Undo what a dead run has left of a savepoint. To be called under the lock, which excludes our other runs."""
        half = savepoints.left_half_way(self._table.assignment.location, self._table.storage)
        if half is not None:
            self._table.client.undo_savepoint(half)

    def _expired(self, there: Sequence[Savepoint]) -> Sequence[Savepoint]:
        return savepoints.expired(there, self._options, now=self._table.clock.now())

    def _read(self) -> _Found:
        """Read the timeline whole. Raises YieldError while an instant is pending that blocks savepoints."""
        properties, storage = self._table.properties(), self._table.storage
        instants = self._table.whole_timeline(properties)
        _nothing_is_in_the_way(instants)
        retained = savepoints.retained_since(instants, properties, storage)
        return _Found(
            there=savepoints.read_savepoints(instants, properties, storage),
            savable=savepoints.savable(instants, retained=retained),
        )


def _nothing_is_in_the_way(instants: Sequence[InstantFiles]) -> None:
    for instant in instants:
        if instant.action in _IN_THE_WAY and instant.state is not State.COMPLETED:
            raise YieldError(f"{instant.action} {instant.time} is pending: savepoints wait for it", delay=_SOON)


Savepointing = program(SavepointSteps, SavepointOptions)
"""The savepoint program. An abort leaves everything as it is."""
