"""Clustering: small files become larger ones, in a chosen order. Its execution is joined with its commit.

It yields to writers. A pending plan makes their updates of its file groups fail, so only partitions that nobody has
touched for a while are taken; the plan is executed at once, or taken back at once; and where it meets a write all the
same, it is ours that Hudi lets lose (docs/hudi.md).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lakewarden.executors.contract import Assignment, Plan, Step, Steps
from lakewarden.executors.programs.hudi.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.following import indexes_followed
from lakewarden.executors.programs.hudi.look import clustered_files, pending_plan, plan_of
from lakewarden.executors.programs.hudi.opened import OpenTable, open_table
from lakewarden.planners.formats.hudi.buckets import named_after_buckets, why_not_clustered
from lakewarden.planners.formats.hudi.cold import ColdPartitions, cold_partitions, disturbed, known_since
from lakewarden.planners.formats.hudi.plans import RUN_KEY, DataFile
from lakewarden.planners.formats.hudi.service_options import ClusteringOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Deed, Instant, Service, State
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage
from lakewarden.planners.settings import format_duration, format_size

_COMPLETE = True
_PLAN_KEYS = "hoodie.clustering.plan.strategy"
_WE_LOSE = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
_UNTIL_WRITES_SAY_WHERE = timedelta(seconds=10)
"""How long a write in flight may leave open which partitions it touches. Spark's writers say it when they have found
where their rows belong; others never do, and are in the way until they end."""


def settings(options: ClusteringOptions, *, largest_plan: int | None = None) -> dict[str, str]:
    """Return what a clustering sets. Which partitions are taken is chosen for each plan. A single file is left as it
    is, or it would be rewritten again and again; where rows are ordered Hudi takes it all the same.
    """
    group = options.max_bytes_per_group if largest_plan is None else min(options.max_bytes_per_group, largest_plan)
    groups = options.max_num_groups if largest_plan is None else min(options.max_num_groups, largest_plan // group)
    return {
        "hoodie.write.lock.conflict.resolution.strategy": _WE_LOSE,
        "hoodie.clustering.plan.partition.filter.mode": "NONE",
        "hoodie.layout.optimize.strategy": options.layout.value,
        f"{_PLAN_KEYS}.single.group.clustering.enabled": "false",
        f"{_PLAN_KEYS}.small.file.limit": str(options.small_file_limit),
        f"{_PLAN_KEYS}.target.file.max.bytes": str(options.target_file_max_bytes),
        f"{_PLAN_KEYS}.max.bytes.per.group": str(group),
        f"{_PLAN_KEYS}.max.num.groups": str(groups),
        **({f"{_PLAN_KEYS}.sort.columns": ",".join(options.sort_columns)} if options.sort_columns else {}),
    }


class Clustering:
    """The clustering program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the write client for one run. An abort takes the plan back, with what Hudi wrote for it."""
        options = ClusteringOptions.model_validate(dict(assignment.service_options))
        service = settings(options, largest_plan=assignment.largest_plan)
        with open_table(session, assignment, storage, service=service, clock=self._clock) as table:
            table.client.lose_to_writes_alone()
            steps = ClusteringSteps(table, options)
            try:
                yield steps
            except Exception:
                steps.abort()
                raise


class ClusteringSteps:
    """The three steps, of which the second does nothing, and the way back."""

    def __init__(self, table: OpenTable, options: ClusteringOptions) -> None:
        self._table = table
        self._options = options
        self._ours: str | None = None

    def plan(self) -> Plan | None:
        """Schedule a clustering of cold partitions, or take up the pending one that was assigned."""
        instant = self._table.assignment.instant or self._schedule()
        if instant is None:
            return None
        pending = pending_plan(self._table.view(), Service.CLUSTERING, instant)
        if pending.author is not None:
            self._ours = instant
            self._give_up_if_too_large(pending)
        elif pending.state is State.INFLIGHT:
            raise PermanentError(
                f"clustering {instant} was begun by somebody else, and nobody can tell whether it is still being "
                "executed: let it end, or roll it back"
            )
        _refuse_files_of_buckets(clustered_files(self._table.assignment, pending, self._table.storage))
        return plan_of(pending)

    def execute(self, plan: Plan) -> None:
        """Do nothing: Hudi executes and commits a clustering in one call."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Rewrite the files and commit them, after a last look at the writers. Raises YieldError if one is in the way.

        What we have begun is ours to take back, whoever planned it.
        """
        self._keep_off_writers(plan.on_timeline)
        self._table.before_a_commit()
        self._ours = plan.on_timeline
        with indexes_followed(self._table), translated(Step.COMMIT):
            written = self._table.client.java.cluster(plan.on_timeline, _COMPLETE)
            return {"file_groups": plan.file_groups or 0, "files_written": int(written.getWriteStats().get().size())}

    def _give_up_if_too_large(self, plan: Instant) -> None:
        """Raise YieldError for a plan that was too large before: it is taken back, and a smaller one made later."""
        most, size = self._table.assignment.largest_plan, None if plan.plan is None else plan.plan.bytes
        if self._table.assignment.instant is not None and most is not None and size is not None and size > most:
            raise YieldError(f"plan {plan.time} of {format_size(size)} is taken back, for one of {format_size(most)}")

    def abort(self) -> None:
        """Take the plan back if it is ours, or was begun by us, and has not been completed."""
        if self._ours is not None:
            with on_the_way_out("take the plan back"):
                self._table.refuse_foreign_plans()
                self._table.client.undo_clustering(self._ours)
                self._table.withdraw(self._ours, hurts_writers=True)

    def _schedule(self) -> str | None:
        """Put a plan for the cold partitions on the timeline; None where there is nothing to do in any partition.

        Raises YieldError where there may be in one that is not cold yet: it will be without another commit.
        """
        _refuse_buckets(self._table)
        view = self._when_writes_have_said_where()
        cold = self._cold(view)
        partitions = self._unordered(cold.partitions, view) if self._options.sort_columns else cold.partitions
        instant = None
        if partitions:
            with translated(Step.PLAN):
                self._table.client.choose_partitions(partitions)
                instant = self._table.client.schedule("CLUSTER", extra_metadata={RUN_KEY: self._table.assignment.run})
        if instant is None and cold.next_at is not None:
            untouched_for = format_duration(self._options.untouched_for)
            raise YieldError(
                f"nothing to do in the {len(cold.partitions)} partitions left alone for {untouched_for}",
                delay=cold.next_at - view.observed_at,
            )
        return instant

    def _cold(self, view: TableView) -> ColdPartitions:
        with translated(Step.PLAN):
            partitions = self._table.client.partitions()
        return cold_partitions(
            partitions,
            view.writers.touches or {},
            touching=view.writers.touching or frozenset(),
            known_since=known_since(view.timeline),
            untouched_for=self._options.untouched_for,
            matching=self._options.partition_regex,
            now=view.observed_at,
        )

    def _unordered(self, partitions: Sequence[str], view: TableView) -> Sequence[str]:
        """Return the partitions without those whose only file no writer has written: its rows are ordered already."""
        with translated(Step.PLAN):
            lone = self._table.client.lone_files(partitions)
        written = {instant.time for instant in view.timeline.instants if instant.stands_for is Deed.WRITE}
        return [path for path in partitions if path not in lone or lone[path] in written]

    def _keep_off_writers(self, instant: str) -> None:
        """Raise YieldError if a writer has touched a planned partition since the plan, or is about to."""
        view = self._when_writes_have_said_where()
        pending = pending_plan(view, Service.CLUSTERING, instant)
        files = clustered_files(self._table.assignment, pending, self._table.storage)
        reason = disturbed(frozenset(file.partition for file in files), pending, view.writers)
        if reason is not None:
            raise YieldError(reason, delay=self._options.untouched_for)

    def _when_writes_have_said_where(self) -> TableView:
        """Return the table in a moment in which every write in flight says which partitions it touches.

        Raises YieldError if there is none for too long. Writes whose writers are dead, if there are no others, touch
        nothing any more.
        """
        deadline = self._table.clock.monotonic() + _UNTIL_WRITES_SAY_WHERE.total_seconds()
        while True:
            view = self._table.view(commits=True)
            if view.writers.touches is None:
                raise TemporaryError("what was written to which partition cannot be read from the timeline")
            writing = any(write.may_be_alive(view.observed_at) for write in view.writers.in_flight)
            if view.writers.touching is not None or not writing:
                return view
            if self._table.clock.monotonic() >= deadline:
                raise YieldError("a write in flight does not say which partitions it touches")
            time.sleep(0.05)


def _refuse_buckets(table: OpenTable) -> None:
    """Raise PermanentError if the table shows a bucket index that a clustering like this one would destroy."""
    why = why_not_clustered(table.assignment.location, table.storage)
    if why is not None:
        raise PermanentError(f"{why.reason}: {why.remedy}")


def _refuse_files_of_buckets(files: frozenset[DataFile]) -> None:
    """Raise PermanentError if any of the files that a clustering by size would take bears the number of a bucket."""
    if named_after_buckets([file.name for file in files]):
        raise PermanentError("the table's writers use a bucket index, whose files must not be clustered")
