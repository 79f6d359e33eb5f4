"""Clustering: small files become larger ones, in a chosen order. Its execution is joined with its commit.

It yields to writers. A pending plan makes their updates of its file groups fail. So only partitions that no write has
touched for a while are taken, and the plan is executed or withdrawn at once. If it meets a write all the same, Hudi
lets the clustering lose (docs/hudi.md). Planning, beginning and committing are done under the table's lock, each with
an observation of the writers. So a step lies between two of their checks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from lakewarden.executors.contract import Assignment, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.opened import (
    OpenTable,
    ProgramSteps,
    pending_plan,
    plan_of,
    program,
)
from lakewarden.executors.programs.hudi.steps.clean_slices import refuse_what_would_lose_rows, resizing, take_back
from lakewarden.executors.programs.hudi.steps.listings import alone_between_writes
from lakewarden.executors.programs.hudi.steps.metadata_table_removal import copy_files, decode_files, why_not_copied
from lakewarden.executors.programs.hudi.steps.rewriting import (
    completed_writes,
    give_up,
    give_up_alone,
    keep_operations,
    reading,
    require_not_undone,
    require_whole_plan,
    writes_named_by,
    written_whole,
)
from lakewarden.planners.formats.hudi.backlog.cold_partitions import (
    ColdPartitions,
    cold_partitions,
    disturbed,
    known_since,
)
from lakewarden.planners.formats.hudi.indexes.file_groups import named_after_buckets, why_not_clustered
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY, DataFile
from lakewarden.planners.formats.hudi.options.service_options import ClusteringOptions, LayoutStrategy, SilentWrites
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, HudiTableOptions
from lakewarden.planners.formats.hudi.writers.activity import does_not_say, meeting, silent_writes, touched_in_flight
from lakewarden.planners.model.errors import NotYetError, PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Step
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import format_duration, format_size

_ONLY_WRITE = False
_PLAN_KEYS = "hoodie.clustering.plan.strategy"
_WE_LOSE = "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy"
_HALVED_AT_MOST = 20
_UNTIL_WRITES_SAY_WHERE = timedelta(seconds=10)
"""How long a write in flight may leave open which partitions it touches. Spark's writers name them when they have found
where their rows belong. Others never do, and block until they end."""


def settings(options: ClusteringOptions, *, largest_plan: int | None = None, retries: int = 0) -> dict[str, str]:
    """Return what a clustering sets. The partitions are chosen for each plan. A single file is left as it is, or it
    would be rewritten again and again. If rows are ordered, Hudi takes it all the same.

    For each of its `retries` in a row it takes half as many groups. A write that comes back to a cold
    partition meets a smaller plan less often, and for a shorter time.
    """
    group = options.max_bytes_per_group if largest_plan is None else min(options.max_bytes_per_group, largest_plan)
    groups = options.max_num_groups if largest_plan is None else min(options.max_num_groups, largest_plan // group)
    groups = max(1, groups >> min(retries, _HALVED_AT_MOST))
    return {
        "hoodie.write.lock.conflict.resolution.strategy": _WE_LOSE,
        "hoodie.clustering.plan.partition.filter.mode": "NONE",
        **({} if options.layout is LayoutStrategy.NONE else {"hoodie.layout.optimize.strategy": options.layout.value}),
        f"{_PLAN_KEYS}.single.group.clustering.enabled": "false",
        f"{_PLAN_KEYS}.small.file.limit": str(options.small_file_limit),
        f"{_PLAN_KEYS}.target.file.max.bytes": str(options.target_file_max_bytes),
        f"{_PLAN_KEYS}.max.bytes.per.group": str(group),
        f"{_PLAN_KEYS}.max.num.groups": str(groups),
        **({f"{_PLAN_KEYS}.sort.columns": ",".join(options.sort_columns)} if options.sort_columns else {}),
    }


def _settings_of(options: ClusteringOptions, assignment: Assignment) -> dict[str, str]:
    service = settings(options, largest_plan=assignment.largest_plan, retries=assignment.retries)
    declared = HudiTableOptions.model_validate(dict(assignment.table_options)).bucket_index
    return service if declared is None else resizing(declared, options, service)


class ClusteringSteps(ProgramSteps[ClusteringOptions]):
    """The steps, and the way back. Once the rewrite has begun, its plan blocks the writers until it is committed."""

    def __init__(self, table: OpenTable, options: ClusteringOptions) -> None:
        super().__init__(table, options)
        table.client.lose_to_writes_alone()
        if options.layout is LayoutStrategy.NONE and table.options.bucket_index is None:  # buckets are never copied
            copy_files(table.client)
        self._ours: str | None = None
        self._resizes = table.options.declared_index is BucketIndex.CONSISTENT_HASHING
        self._files_read = 0
        self._resized: frozenset[str] = frozenset()  # the partitions of the plan
        self._writes: frozenset[str] = frozenset()  # those that the plan names

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
                f"clustering {instant} was begun by another client, and nothing shows whether it is still being "
                "executed: let it end, or roll it back"
            )
        files = self._table.files_of(pending)
        _refuse_files_of_buckets(self._table, files)
        require_whole_plan(self._table, Service.CLUSTERING, instant, files)
        if keep_operations(self._table.client, files) and self._resizes:
            raise PermanentError("rows have operations (_hoodie_operation): remove services.clustering")
        self._files_read = len(files)
        self._resized = frozenset(file.partition for file in files)
        self._writes = writes_named_by(files)
        return plan_of(pending)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Rewrite the files and commit them, each after an observation of the writers. Raises YieldError if one blocks.

        A plan that we have begun is ours to withdraw, even if another client planned it.
        """
        instant = plan.on_timeline
        with reading(self._table, instant, self._writes):
            self._refuse_a_wrong_copy(instant, ours=self._ours is not None)
        with self._between_writers(instant) as view:
            self._table.before_a_commit()
            self._ours = instant
            require_not_undone(self._table, view, instant, self._writes)
            read = completed_writes(view)
        with reading(self._table, instant, read), translated(Step.COMMIT):
            self._table.client.read_by_column_ids()
            written = self._table.client.write("cluster", instant, _ONLY_WRITE)
            statuses = written.getWriteStatuses()
            self._table.client.keep(statuses)
            files = written_whole(statuses)
        self._table.reach(Point.WRITTEN)
        with self._between_writers(instant) as view:
            self._table.before_a_commit()
            require_not_undone(self._table, view, instant, read)
            self._refuse_a_wrong_copy(instant, ours=True, footers=False)
            with translated(Step.COMMIT):
                self._table.client.complete_clustering(instant, written)
        return {"file_groups": plan.file_groups or 0, "files_rewritten": self._files_read, "files_added": files}

    def _give_up_if_too_large(self, plan: Instant) -> None:
        """Raise YieldError for a plan that was too large before: it is withdrawn, and a smaller one made later."""
        most, size = self._table.assignment.largest_plan, None if plan.plan is None else plan.plan.bytes
        if self._table.assignment.instant is not None and most is not None and size is not None and size > most:
            raise YieldError(f"plan {plan.time} of {format_size(size)} is withdrawn, for one of {format_size(most)}")

    def abort(self) -> None:
        """Give the plan up if it is ours, or was begun by us, and is not completed."""
        if self._ours is not None:
            with on_the_way_out("withdraw the plan"):
                if self._resizes:
                    self._table.refuse_foreign_plans()
                    take_back(self._table, self._ours)
                else:
                    give_up(self._table, self._ours)

    def _schedule(self) -> str | None:
        """Put a plan for the cold partitions on the timeline; None if no partition has anything to do.

        Raises NotYetError if a partition that is not cold yet may have: it becomes cold without another commit.
        """
        _refuse_buckets(self._table)
        with translated(Step.PLAN):
            partitions = self._table.client.partitions()
        first = self._cold(self._observed(), partitions)
        candidates = self._unordered(first.partitions) if self._options.sort_columns else first.partitions
        instant, cold = self._planned(candidates)
        if instant is not None and self._must_be_decoded(instant):
            give_up(self._table, instant)
            self._ours = None
            decode_files(self._table.client)
            instant, cold = self._planned(candidates)
        if instant is None and (next_at := cold.next_at or first.next_at) is not None:
            untouched_for = f"{format_duration(self._options.untouched_for)} (untouched_for)"
            raise NotYetError(
                f"none in the {len(first.partitions)} partitions left alone for {untouched_for}",
                delay=next_at - self._table.clock.now(),
            )
        return instant

    def _planned(self, candidates: Sequence[str]) -> tuple[str | None, ColdPartitions]:
        """Observe, plan, and observe again, all under the table's lock. No writer's check meets a plan that fails it.

        Only partitions that no write in flight touches are planned. Before the lock is released, it is checked that no
        further write has appeared.
        """
        if not candidates:
            return None, ColdPartitions(partitions=())
        with self._between_writers() as view:
            cold = self._cold(view, candidates)
            if not cold.partitions:
                return None, cold
            with translated(Step.PLAN):
                self._table.client.choose_partitions(cold.partitions)
                instant = self._table.client.schedule("CLUSTER", extra_metadata={RUN_KEY: self._table.assignment.run})
            if instant is not None:
                self._ours = instant
                self._table.reach(Point.LOOKING)
                self._stay_out_of_the_way(instant, self._observed())
            return instant, cold

    def _must_be_decoded(self, instant: str) -> bool:
        """Return whether a plan that was just made copies files that must not be copied."""
        with translated(Step.PLAN):
            return why_not_copied(self._table.client, instant) is not None

    def _refuse_a_wrong_copy(self, instant: str, *, ours: bool, footers: bool = True) -> None:
        """Raise an error for a plan that copies files that must not be copied: YieldError for one of ours, which is
        withdrawn, and PermanentError for any other.
        """
        with translated(Step.COMMIT):
            why = why_not_copied(self._table.client, instant, footers=footers)
        if why is not None and ours:
            raise YieldError(why)
        if why is not None:
            raise PermanentError(f"{why}: roll it back")

    def _cold(self, view: TableView, partitions: Sequence[str]) -> ColdPartitions:
        return cold_partitions(
            partitions,
            view.writers.touches or {},
            touching=touched_in_flight(view.writers),
            known_since=known_since(view.timeline),
            untouched_for=self._options.untouched_for,
            matching=self._options.partition_regex,
            now=view.observed_at,
        )

    def _unordered(self, partitions: Sequence[str]) -> Sequence[str]:
        """Return the partitions without those with a single file that no writer has written: it is ordered already."""
        with translated(Step.PLAN):
            lone = self._table.client.lone_files(partitions)
        instants = self._table.view(commits=True).timeline.instants
        written = {instant.time for instant in instants if instant.stands_for is InstantKind.WRITE}
        return [path for path in partitions if path not in lone or lone[path] in written]

    @contextlib.contextmanager
    def _between_writers(self, instant: str | None = None) -> Iterator[TableView]:
        """Hold the table's lock in a moment in which every write in flight says which partitions it touches.

        Raises YieldError if there is none for too long, or if a write conflicts with the plan of `instant`.
        """
        with alone_between_writes(
            self._table,
            lambda view: self._silent(view, instant),
            why=self._why_in_the_way,
            within=_UNTIL_WRITES_SAY_WHERE,
            commits=True,
            judge=lambda view: self._judge(instant, view),
        ) as view:
            yield view

    def _judge(self, instant: str | None, view: TableView) -> None:
        _refuse_unknown_touches(view)
        if instant is not None:
            self._stay_out_of_the_way(instant, view)

    def _stay_out_of_the_way(self, instant: str, view: TableView) -> None:
        """Raise YieldError if a write has touched a planned partition since the plan, or is about to. To be called
        under the lock. A write that began before the plan would fail by it at its next check. So the plan is withdrawn
        at once, without waiting for such a write to say what it touches.
        """
        pending = pending_plan(view, Service.CLUSTERING, instant)
        files = self._table.files_of(pending)
        planned = frozenset(file.partition for file in files)
        endangered = [write for write in self._meeting(view, planned) if write.time < instant]
        if self._resizes and not endangered:
            if not self._silent(view, instant):
                refuse_what_would_lose_rows(self._table, pending, planned, view)
            return
        reason = disturbed(planned, pending, view.writers)
        if reason is None and endangered:
            reason = does_not_say(endangered[0])
        if reason is not None:
            self._table.reach(Point.WITHDRAWING)
            if endangered:
                with on_the_way_out("withdraw the plan"):
                    give_up_alone(self._table, instant)
                    self._ours = None
            raise YieldError(reason, delay=self._options.untouched_for)

    def _silent(self, view: TableView, instant: str | None) -> Sequence[Instant]:
        """Return the writes in flight that may touch partitions that they do not name. If one of them began before the
        plan of `instant`, none is waited for: its effect on the plan has to be judged at once.

        A plan to resize buckets is made without a write in flight (Hudi plans nothing beside one). It also waits for
        writes that touch its buckets, because only its commit fails them.
        """
        now = view.observed_at
        if self._resizes and not self._resized:
            silent = tuple(write for write in view.writers.in_flight if write.may_be_alive(now))
        elif self._resizes:
            silent = meeting(view.writers, self._resized, now)
        elif self._options.silent_writes_touch is SilentWrites.WARM:
            return ()
        else:
            silent = silent_writes(view.writers, now)
        return () if any(write.time < (instant or "") for write in silent) else silent

    def _why_in_the_way(self, write: Instant) -> str:
        if self._resizes:
            return f"write {write.time} in flight touches, or may touch, buckets that would be resized"
        return does_not_say(write)

    def _meeting(self, view: TableView, partitions: frozenset[str]) -> Sequence[Instant]:
        """Return the writes in flight that touch one of the partitions, or may touch it."""
        met = meeting(view.writers, partitions, view.observed_at)
        if self._options.silent_writes_touch is SilentWrites.WARM:
            return [write for write in met if write.time in view.writers.touching]
        return met

    def _observed(self) -> TableView:
        view = self._table.view(commits=True)
        _refuse_unknown_touches(view)
        return view


def _refuse_unknown_touches(view: TableView) -> None:
    """Raise TemporaryError if it is not known which partitions are cold."""
    if view.writers.touches is None:
        raise TemporaryError("the timeline does not show which partitions were written to")


def _refuse_buckets(table: OpenTable) -> None:
    """Raise PermanentError if the table shows a bucket index that a clustering like this one would destroy."""
    why = why_not_clustered(table.options.declared_index, table.assignment.location, table.storage)
    if why is not None:
        raise PermanentError(f"{why.reason}: {why.remedy}")


def _refuse_files_of_buckets(table: OpenTable, files: frozenset[DataFile]) -> None:
    """Raise PermanentError if a file that a clustering by size would take bears the number of a bucket."""
    if table.options.bucket_index is None and named_after_buckets([file.name for file in files]):
        raise PermanentError("the table's writers use a bucket index, and its files must not be clustered")


Clustering = program(ClusteringSteps, ClusteringOptions, settings=_settings_of)
"""The clustering program. An abort withdraws the plan, with what Hudi wrote for it."""
