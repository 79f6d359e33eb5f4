"""Archive: old instants leave the active timeline for the archived one. It deletes no data file.

It leaves no instant of its own, so its plan is only a count. The count is made again under the table's lock before
anything is moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, ProgramSteps, program
from lakewarden.executors.programs.hudi.steps.metadata_table_removal import (
    refuse_unknown_manifests,
    remove_half_manifests,
)
from lakewarden.planners.formats.hudi.backlog.archiving import BATCH, ArchiveReading, Archiving, Pin
from lakewarden.planners.formats.hudi.deletion.readers import needed_by
from lakewarden.planners.formats.hudi.options.service_options import ArchiveOptions
from lakewarden.planners.model.instant import Step
from lakewarden.planners.model.view import ReaderPosition

SETTINGS = {
    # Hudi raises keep.min to what it believes that cleans and compactions need, by this client's own settings. Those
    # are not the settings of the table's services. The services' needs are among our pins, so here they ask for least.
    "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
    "hoodie.clean.commits.retained": "1",
    "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.archive.beyond.savepoint": "false",  # readers take what is archived behind a savepoint for never committed
}


class ArchiveSteps(ProgramSteps[ArchiveOptions]):
    """The steps."""

    def __init__(self, table: OpenTable, options: ArchiveOptions) -> None:
        super().__init__(table, options)
        self._reading = ArchiveReading(table.assignment.location, table.storage)

    def plan(self) -> Plan | NothingToDo:
        """Count the instants that may be archived, or say what holds them."""
        archiving = self._read()
        if not archiving.instants:
            return NothingToDo(reason=archiving.reason)
        refuse_unknown_manifests(self._table)
        return Plan(instant=None, instants=archiving.instants)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Archive what may go now, under the table's lock: no commit can be completed meanwhile.

        Hudi archives down to a number of commits, not up to one of them. Both mean the same only while no commit is
        added.
        """
        self._table.refuse_foreign_plans()
        self._read()  # so that the lock is held only to read what is new since
        with translated(Step.COMMIT), self._table.client.locked():
            archiving = self._read(locked=True)
            archived = 0
            if archiving.instants:
                remove_half_manifests(self._table)
                archived = self._table.client.archive_left_behind(
                    archiving.left_behind, before_each=partial(self._table.reach, Point.ARCHIVED)
                )
            if archiving.going:
                archived += self._table.client.archive(keep=archiving.commits - archiving.going)
        more = {GOES_ON: 1} if archived and archiving.going == BATCH else {}
        return {"instants_archived": archived, **more}

    def _read(self, *, locked: bool = False) -> Archiving:
        reader = needed_by(self._table.view().readers)  # this observation also knows what earlier ones have shown
        unread = [] if reader is None or reader.needs is None else [Pin(at=reader.needs, reason=_unread(reader))]
        return self._reading.archiving(
            keep_min=self._options.keep_min_commits,
            keep_max=self._options.keep_max_commits,
            known=self._table.observations.seen,
            locked=locked,
            more=unread,
        )


def _unread(reader: ReaderPosition) -> str:
    return f"reader {reader.name} at {reader.at} has not read later commits"


Archive = program(ArchiveSteps, ArchiveOptions, settings=lambda *_: SETTINGS)
"""The archive program. An abort leaves the timeline as it is."""
