"""The next plan of a clean: everything that there is to clean, or a slice of a neglected table within its budget.

The size of a slice is known only when Hudi has planned it. So the slice is chosen by what the oldest commits wrote,
then planned and counted. If it is too large, it is withdrawn and a smaller one is planned. Nothing is executed
meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set

from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable
from lakewarden.planners.formats.hudi.backlog.neglected import (
    FILES_AT_A_TIME,
    Bisection,
    Uncleaned,
    first_slice,
    uncleaned,
)
from lakewarden.planners.formats.hudi.deletion.readers import needed_by
from lakewarden.planners.formats.hudi.metadata.commits import Written, written
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFile, file_name
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, UnreadableError, first, name_of, read_chunks
from lakewarden.planners.formats.hudi.metadata.plans import RUN_KEY, DataFile
from lakewarden.planners.formats.hudi.options.service_options import CleanOptions, ClusteringOptions
from lakewarden.planners.formats.hudi.options.table_options import BucketIndex, Buckets
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, InstantKind, Service, Step
from lakewarden.planners.model.view import TableView


def schedule_clean(table: OpenTable, options: CleanOptions) -> str | None:
    """Put a clean's plan on the timeline and return its instant; None if there is nothing to clean. A deletion that an
    operator has approved is planned anew as it was shown, unless a writer's archive has gone past its commit.

    Raises TemporaryError if the timeline cannot be read, or if another client began a plan of ours before its count.
    """
    folder = table.properties().timeline_folder
    backlog = _uncleaned(table, options, folder)
    approved = None if backlog is None else backlog.since(table.assignment.retained)
    if backlog is not None and approved is not None:
        table.client.retain_commits(max(1, backlog.kept, approved))
        return _schedule(table)
    if backlog is None or not backlog.neglected:
        if backlog is not None and table.view().readers:
            table.client.retain_commits(max(1, backlog.kept))
        return _schedule(table)
    most = table.assignment.most_files or FILES_AT_A_TIME
    slices = Bisection(
        first_slice(backlog, lambda commit: _files_of(table, f"{folder}/{name_of(commit)}"), most=most),
        all_of_it=backlog.excess,
    )
    while True:
        table.client.retain_commits(len(backlog.commits) - slices.commits)
        instant = _schedule(table)
        if instant is None:
            if not slices.was_empty():
                return None
        elif _fits(table, instant, most) or not slices.was_too_large():
            return instant
        else:
            _withdraw(table, instant)


def _schedule(table: OpenTable) -> str | None:
    with translated(Step.PLAN):
        return table.client.schedule_clean(extra_metadata={RUN_KEY: table.assignment.run})


def _fits(table: OpenTable, instant: str, most: int) -> bool:
    files = table.clean_size(instant).files
    if files > most:
        return False
    share, there = table.assignment.largest_share, table.files_if_asked(files)
    return share is None or there is None or files * 100 <= share * there


def _withdraw(table: OpenTable, instant: str) -> None:
    with translated(Step.PLAN):
        if not table.client.withdraw(instant):
            raise TemporaryError(f"clean {instant} was begun by another client before it was judged")


def _uncleaned(table: OpenTable, options: CleanOptions, folder: str) -> Uncleaned | None:
    view = table.view()
    last = view.timeline.last_completed(Service.CLEAN)
    retained = None
    if last is not None:
        key = "earliestCommitToRetain"
        try:
            retained = first(read_chunks(table.storage, f"{folder}/{name_of(last)}"), key).get(key) or None
        except (FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"clean {last.time} cannot be read: {error}") from error
    needed = needed_by(view.readers)
    return uncleaned(
        view.timeline,
        options,
        retained=retained,
        now=view.observed_at,
        needed=None if needed is None else needed.needs,
    )


def _files_of(table: OpenTable, commit: str) -> int:
    """Return how many files a commit wrote; 0 if it is gone or unreadable, because its plan is counted anyway."""
    try:
        wrote = written(read_chunks(table.storage, commit))
    except (FileNotFoundError, UnreadableError, *MALFORMED):
        return 0
    return len(wrote.bases.groups) + len(wrote.logs.groups)


# Resizing: the clustering of a table with writers that hash consistently. Large buckets are split, small ones merged.
#
# A resizing changes which file group holds a key. Writers learn that from the metadata below `.hoodie/.bucket_index`,
# which the commit of the clustering makes valid. Until then they write to the old file groups and, by the update
# strategy that `writer-options` prints, to the new ones as well. Their log files there have the clustering's own
# instant, and so are seen when it is completed (docs/hudi.md). A plan with such log files has to be completed. Once it
# is gone from the timeline, an archive beyond its instant would make those log files part of the table.

_WHO_LOSES = "hoodie.write.lock.conflict.resolution.strategy"
_CLUSTERING = "org.apache.hudi.client.clustering"


def resizing(buckets: Buckets, options: ClusteringOptions, service: Mapping[str, str]) -> dict[str, str]:
    """Return what such a clustering sets, based on what every clustering sets; only that if buckets cannot be resized.

    A bucket is split if it is larger than twice `target_file_max_bytes`, and merged below a fifth of it, by Hudi's
    `hoodie.bucket.index.split.threshold` and `.merge.threshold`. The clustering loses to no write. Rows that were
    written meanwhile are in the new buckets, too, which `refuse_what_would_lose_rows` ensures.
    """
    if buckets.engine is not BucketIndex.CONSISTENT_HASHING:
        return dict(service)
    hashed = {"hoodie.bucket.index.hash.field": ",".join(buckets.hash_fields)} if buckets.hash_fields else {}
    return {
        **{key: value for key, value in service.items() if key != _WHO_LOSES},
        "hoodie.index.type": "BUCKET",
        "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
        "hoodie.bucket.index.num.buckets": str(buckets.min_buckets),
        "hoodie.bucket.index.min.num.buckets": str(buckets.min_buckets),
        "hoodie.bucket.index.max.num.buckets": str(buckets.max_buckets),
        "hoodie.parquet.max.file.size": str(options.target_file_max_bytes),
        "hoodie.clustering.plan.strategy.class": (
            f"{_CLUSTERING}.plan.strategy.SparkConsistentBucketClusteringPlanStrategy"
        ),
        "hoodie.clustering.execution.strategy.class": (
            f"{_CLUSTERING}.run.strategy.SparkConsistentBucketClusteringExecutionStrategy"
        ),
        "hoodie.clustering.updates.strategy": (
            f"{_CLUSTERING}.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
        ),
        **hashed,
    }


def refuse_what_would_lose_rows(table: OpenTable, plan: Instant, planned: Set[str], view: TableView) -> None:
    """Raise YieldError if a failed write has left something in a planned partition, because its rows in the new buckets
    would be seen with the plan. Raises PermanentError if a completed write went to the old buckets alone. To be called
    under the lock, in a moment without a write in flight that may be alive.
    """
    for write in view.writers.in_flight:
        if not planned.isdisjoint(view.writers.touching.get(write.time, ())):
            raise YieldError(f"write {write.time} has to be rolled back before plan {plan.time} is completed")
    alone = written_past(table, plan, view)[1]
    if alone:
        raise PermanentError(
            f"write {alone[0]} went to a bucket that plan {plan.time} resizes, and not to the new ones as well: its "
            "rows would be lost. Give all writers what `lakewarden writer-options` prints"
        )


def take_back(table: OpenTable, plan: str) -> None:
    """Undo what was written for a plan, and remove it in a moment without a write in flight, if no write has written to
    its new buckets. Otherwise it stays for the next run: writers do not fail by it.
    """
    table.client.undo_attempt(plan)

    def untouched(instant: str) -> bool:
        view = table.view()
        pending = [entry for entry in view.timeline.pending(Service.CLUSTERING) if entry.time == instant]
        gone = not pending or any(written_past(table, pending[0], view)[0])
        return not gone and table.client.remove_plan(instant)

    table.withdraw(plan, by=untouched)


def written_past(table: OpenTable, plan: Instant, view: TableView) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the writes completed since a plan that went to one of its buckets: first those that went to the new ones
    as well, then those that did not. The clustering would lose the rows of the latter. Raises TemporaryError if one is
    unreadable.
    """
    planned = {_group(file) for file in table.files_of(plan)}
    met = [(time, wrote) for time, wrote in _since(table, plan, view) if _met(wrote, planned)]
    both = tuple(time for time, wrote in met if plan.time in wrote.logs.slices)
    return both, tuple(time for time, _ in met if time not in both)


def _met(wrote: Written, groups: Set[int]) -> bool:
    return not groups.isdisjoint(wrote.bases.groups) or not groups.isdisjoint(wrote.logs.groups)


def _group(file: DataFile) -> int:
    """Return a data file's group as a commit's are kept (`commits.Files`)."""
    return hash((file.partition, file.name.removeprefix(".").partition("_")[0]))


def _since(table: OpenTable, plan: Instant, view: TableView) -> Iterator[tuple[str, Written]]:
    folder = table.properties().timeline_folder
    for instant in view.timeline.instants:
        if instant.stands_for is InstantKind.WRITE and not instant.pending and instant.time > plan.time:
            done = InstantFile(
                time=instant.time,
                action=Action(instant.action),
                state=instant.state,
                completed_time=instant.completed_time,
            )
            try:
                yield instant.time, written(read_chunks(table.storage, f"{folder}/{file_name(done)}"))
            except (FileNotFoundError, UnreadableError, *MALFORMED) as error:
                raise TemporaryError(f"{file_name(done)} cannot be read: {error}") from error
