"""Compaction of a merge-on-read table in three calls: schedule, compact, commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from lakewarden.executors.contract import Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, program
from lakewarden.executors.programs.hudi.steps.listings import alone_between_writes
from lakewarden.executors.programs.hudi.steps.returning_keys import NewBase, commit_without_returning_keys
from lakewarden.executors.programs.hudi.steps.rewriting import (
    Calls,
    IncompletePlanError,
    RewriteSteps,
    UndoneError,
    keep_operations,
    require_whole_plan,
)
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, file_group
from lakewarden.planners.formats.hudi.options.service_options import CompactionOptions
from lakewarden.planners.formats.hudi.writers.activity import meeting, silent_writes, touched_in_flight
from lakewarden.planners.model.errors import YieldError
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.view import TableView

_PENDING_PLAN_IS_HARMLESS_FROM = 9
"""Below this table version a pending compaction fails writes that began before it. The check of 1.0.2, and of every
release on a table below version 8, compares with its plan (bytecode; run on version 6)."""

_UNTIL_WRITES_SAY_WHERE = timedelta(seconds=10)


def settings(options: CompactionOptions, *, largest_plan: int | None = None) -> dict[str, str]:
    """Return what a compaction sets. The decision to plan was made before, so one delta commit is enough.

    Hudi's `BoundedIOCompactionStrategy` counts bytes read and written, and takes at least one file group.
    """
    target = options.target_io_mb if largest_plan is None else min(options.target_io_mb, largest_plan // 2**20)
    return {
        "hoodie.compact.inline.trigger.strategy": "NUM_COMMITS",
        "hoodie.compact.inline.max.delta.commits": "1",
        "hoodie.compaction.target.io": str(max(1, target)),
    }


class CompactionSteps(RewriteSteps[CompactionOptions]):
    """The three steps, and the way back. An earlier attempt at the same instant is rolled back by Hudi first."""

    calls = Calls(service=Service.COMPACTION, schedule="COMPACT", execute="compact", commit="commitCompaction")

    def __init__(self, table: OpenTable, options: CompactionOptions) -> None:
        super().__init__(table, options)
        self._planned: str | None = None  # a plan of ours that was not begun
        self._executing: str | None = None
        self._undone: str | None = None  # a plan that names files of a write that was rolled back

    def _schedule(self) -> str | None:
        """Schedule a compaction. If its plan alone would fail a write, it leaves out what writes in flight touch, and
        is made between two looks under the lock. Raises YieldError if a write does not say what it touches.
        """
        with translated(Step.PLAN):
            if self._table.client.last_compaction_left_out():
                self._table.client.compact_around(())
        harmless = self._table.client.table_version >= _PENDING_PLAN_IS_HARMLESS_FROM
        if harmless or self._table.view().writers.non_blocking:
            return super()._schedule()
        with alone_between_writes(
            self._table,
            lambda view: silent_writes(view.writers, view.observed_at),
            why=lambda write: f"write {write.time} in flight does not say which partitions it touches",
            within=_UNTIL_WRITES_SAY_WHERE,
        ) as view:
            return self._schedule_around(touched_in_flight(view.writers))

    def _schedule_around(self, touched: Collection[str]) -> str | None:
        with translated(Step.PLAN):
            self._table.client.compact_around(touched)
        instant = super()._schedule()
        if instant is None:
            return None
        self._planned = instant
        self._table.reach(Point.LOOKING)
        view = self._table.view()
        plan = self._table.files_of(self._pending(instant))
        planned = frozenset(file.partition for file in plan)
        met = [write for write in meeting(view.writers, planned, view.observed_at) if write.time < instant]
        if met:
            with translated(Step.PLAN):
                self._table.client.remove_plan(instant)
            raise YieldError(f"write {met[0].time} had begun before plan {instant}, and would fail by it")
        return instant

    def execute(self, plan: Plan) -> None:
        """Write the new base files without committing them. Raises PermanentError if the plan leaves out a file. It is
        withdrawn then, if there is a moment without a write soon. Raises UndoneError as `commit` does.
        """
        self._planned = None
        try:
            super().execute(plan)
        except IncompletePlanError:
            self._table.withdraw(plan.on_timeline)
            raise
        except UndoneError:
            self._undone = plan.on_timeline
            raise

    def _judge(self, view: TableView, instant: str, files: Collection[DataFile]) -> None:
        super()._judge(view, instant, files)
        require_whole_plan(self._table, Service.COMPACTION, instant, files)
        keep_operations(self._table.client, files)
        self._executing = instant

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant, without the file groups in which a deleted key would be there twice from then on.
        Raises UndoneError if a write that was read was rolled back.
        """
        try:
            return commit_without_returning_keys(
                self._table, plan.on_timeline, self._statuses, self._files, lambda left: self._complete(plan, left)
            )
        except UndoneError:
            self._undone = plan.on_timeline
            raise

    def _complete(self, plan: Plan, left_out: Collection[NewBase]) -> Mapping[str, int | float | str]:
        if not left_out:
            return super().commit(plan)
        left_groups = {(group.partition, group.file_id) for group in left_out}
        with translated(Step.COMMIT):
            self._table.client.leave_out(self._written, left_groups)
        self._files = [file for file in self._files if file_group(file) not in left_groups]
        self._file_groups -= len(left_out)
        return {**super().commit(plan), "file_groups_left_out": len(left_out)}

    def abort(self) -> None:
        """Leave the plan. Executed work stays for its next owner. Only our heartbeat on it ends. A plan with files of a
        write that was rolled back is withdrawn, because a writer that compacts would fail by it.
        """
        client = self._table.client
        with on_the_way_out("leave the plan"):
            if self._undone is not None and self._table.withdraw(self._undone, by=self._undo):
                return
            if self._executing is not None:
                client.stop_heartbeat(self._executing)
            elif self._planned is not None and client.table_version < _PENDING_PLAN_IS_HARMLESS_FROM:
                self._table.withdraw(self._planned)

    def _undo(self, instant: str) -> bool:
        """Remove a plan that may have been begun. To be called under the lock."""
        self._table.client.undo_rewrite(instant)
        self._table.reach(Point.WITHDRAWING)
        return self._table.client.remove_plan(instant)

    def _pending(self, instant: str) -> Instant:
        pending = super()._pending(instant)
        self._planned = instant if pending.author is not None else None
        return pending


Compaction = program(
    CompactionSteps,
    CompactionOptions,
    settings=lambda options, assignment: settings(options, largest_plan=assignment.largest_plan),
)
"""The compaction program. An abort deletes no data file and leaves the plan pending."""
