"""Log compaction of a merge-on-read table: the log blocks of a file group become one, and its base file stays.

Its plans are not durable. Hudi refuses to execute a plan that was begun before, or that a later compaction has made
void, and its file groups are not compacted until it is gone. No heartbeat guards it either. So a plan that is not
executed at once is withdrawn at once, and the next run withdraws the plan of a killed run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta

from lakewarden.executors.contract import Plan
from lakewarden.executors.programs.hudi.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, program
from lakewarden.executors.programs.hudi.steps.listings import alone_between_writes
from lakewarden.executors.programs.hudi.steps.rewriting import (
    Calls,
    RewriteSteps,
    give_up,
    refuse_log_compaction,
    require_whole_plan,
)
from lakewarden.planners.formats.hudi.backlog.archiving import KAFKA_OFFSETS
from lakewarden.planners.formats.hudi.metadata.plans import DataFile
from lakewarden.planners.formats.hudi.options.service_options import LogCompactionOptions
from lakewarden.planners.formats.hudi.writers.activity import meeting
from lakewarden.planners.model.errors import PermanentError, YieldError
from lakewarden.planners.model.instant import Instant, Service, State, Step
from lakewarden.planners.model.view import TableView

_SOON = timedelta(seconds=1)
_UNTIL_WRITES_TOUCH_OTHERS = timedelta(seconds=10)
"""The limit is short because a compaction that has become due meanwhile waits as long."""


def settings(options: LogCompactionOptions) -> dict[str, str]:
    """Return what a log compaction sets. Hudi plans none unless it is enabled."""
    return {
        "hoodie.log.compaction.enable": "true",
        "hoodie.log.compaction.blocks.threshold": str(options.log_blocks_threshold),
    }


class LogCompactionSteps(RewriteSteps[LogCompactionOptions]):
    """The three steps, and the way back."""

    calls = Calls(
        service=Service.LOG_COMPACTION, schedule="LOG_COMPACT", execute="logCompact", commit="commitLogCompaction"
    )

    def __init__(self, table: OpenTable, options: LogCompactionOptions) -> None:
        super().__init__(table, options)
        self._ours: str | None = None

    def plan(self) -> Plan | None:
        """Schedule a log compaction, or take up the pending one that was assigned. Raises PermanentError if Hudi's sink
        for Kafka Connect writes to the table: it would write again what it has written.
        """
        with translated(Step.PLAN):
            writes = self._table.client.table().getActiveTimeline().getDeltaCommitTimeline().filterCompletedInstants()
            newest = writes.lastInstant()
            marked = newest.isPresent() and writes.readCommitMetadata(newest.get()).getMetadata(KAFKA_OFFSETS)
        if marked:
            raise PermanentError(
                f"the newest commit has {KAFKA_OFFSETS}: Hudi's sink for Kafka Connect looks for them in the newest "
                "delta commit alone, and a log compaction is one. Remove services.log_compaction"
            )
        return super().plan()

    def execute(self, plan: Plan) -> None:
        """Write the new log files without committing them. Raises PermanentError if rows would be lost."""
        self._ours = plan.on_timeline
        super().execute(plan)

    def _judge(self, view: TableView, instant: str, files: Collection[DataFile]) -> None:
        super()._judge(view, instant, files)
        require_whole_plan(self._table, Service.LOG_COMPACTION, instant, files)
        refuse_log_compaction(self._table.client, files)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant in a moment in which no write in flight touches, or may touch, its partitions.

        A writer that prefers to lose (`PreferWriterConflictResolutionStrategy`) compares itself with everything that
        was completed since it began, including log compactions of any age (run, live). Raises YieldError if there is
        no such moment soon.
        """
        table = self._table
        pending = super()._pending(plan.on_timeline)
        partitions = {file.partition for file in table.files_of(pending)}
        with alone_between_writes(
            table,
            lambda view: meeting(view.writers, partitions, view.observed_at),
            why=lambda write: f"write {write.time} in flight touches, or may touch, what would be completed",
            within=_UNTIL_WRITES_TOUCH_OTHERS,
        ):
            return super().commit(plan)

    def abort(self) -> None:
        """Give the plan up if it is ours, or was begun by us, and is not completed."""
        if self._ours is not None:
            with on_the_way_out("withdraw the plan"):
                give_up(self._table, self._ours)

    def _pending(self, instant: str) -> Instant:
        """Return the plan, if it can still be executed. Otherwise it is ours to withdraw, or an operator has to act."""
        pending = super()._pending(instant)
        if pending.author is not None:
            self._ours = instant
        if pending.state is State.INFLIGHT:
            if pending.author is None:
                raise PermanentError(
                    f"log compaction {instant} was begun by another client, and nothing shows whether it is still "
                    "being executed: let it end, or roll it back"
                )
            raise YieldError(f"log compaction {instant} was begun by a run that is gone: withdrawn", delay=_SOON)
        later = [i for i in self._table.view().timeline.instants if _voids(i, pending)]
        if later and self._ours is not None:
            raise YieldError(f"compaction {later[0].time} has made log compaction {instant} void", delay=_SOON)
        return pending


def _voids(other: Instant, plan: Instant) -> bool:
    return other.stands_for is Service.COMPACTION and other.time > plan.time


LogCompaction = program(LogCompactionSteps, LogCompactionOptions, settings=lambda options, _: settings(options))
"""The log compaction program. An abort withdraws the plan, with what Hudi wrote for it."""
