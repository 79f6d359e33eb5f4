"""What compaction and clustering share: Iceberg's rewrite of data files in three steps.

plan      Iceberg's planner makes file groups; those that writers do not touch are taken; nothing is written
execute   Iceberg's rewriters write the new files, which are not visible yet
commit    after a last check Iceberg's own commit exchanges the files, all at once or in several parts
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import structlog

from lakewarden.executors.contract import NothingToDo, Plan
from lakewarden.executors.programs.bracket import carry_out
from lakewarden.executors.programs.iceberg.client.commit import Proposed, exchange, signature
from lakewarden.executors.programs.iceberg.client.errors import JobsCancelledError, on_the_way_out, translated
from lakewarden.executors.programs.iceberg.client.observing import RunObservations
from lakewarden.executors.programs.iceberg.client.opened import OpenTable
from lakewarden.executors.programs.iceberg.client.runners import MakeRunner
from lakewarden.executors.programs.iceberg.client.statistics import figures_of
from lakewarden.executors.programs.iceberg.steps.file_groups import (
    FieldIds,
    FileGroup,
    MadeGroup,
    each,
    made,
    planned_groups,
    taken,
)
from lakewarden.planners.formats.iceberg.backlog.clustering import untouchable
from lakewarden.planners.formats.iceberg.metadata.files import manifests_in
from lakewarden.planners.formats.iceberg.metadata.metadata import TableMetadata
from lakewarden.planners.formats.iceberg.options.service_options import RewriteOptions
from lakewarden.planners.formats.iceberg.rewriting.deletes import Planned, anchored, are_expected, kept_specs, refusal
from lakewarden.planners.formats.iceberg.rewriting.rewrite_all import Reach
from lakewarden.planners.formats.iceberg.rewriting.selection import Thresholds, selection, thresholds
from lakewarden.planners.formats.iceberg.writers.activity import kept_off_for_branches
from lakewarden.planners.formats.iceberg.writers.cold import left_alone
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, UnknownError, YieldError
from lakewarden.planners.model.instant import Step
from lakewarden.planners.storage.content import read_ahead

# The rows of a file group before and after it was rewritten, as the files' own footers count them.
#
# Iceberg refuses a rewrite that adds rows according to the manifests, and none that loses rows. Rows are lost if a
# manifest is wrong: a reader skips what lies before the first of its `split_offsets`.

log = structlog.get_logger(__name__)

_ANEW = (
    "copy it under a new name, remove it from the table, and add the copy with a current release of Iceberg "
    "(add_files), which reads the footer. Do not add the file itself again: a later expiry would delete it"
)


def require_balance(table: OpenTable, group: MadeGroup) -> None:
    """Raise PermanentError if the new files of a group do not have the rows of the old ones, or if an old file has more
    rows than its manifest claims: Iceberg would refuse the commit.

    The old files are counted after Spark has read them. Before that, a store that hangs would be waited for here, where
    no cancellation ends it.
    """
    least, most = _expected(table, group)
    with translated(Step.EXECUTE):
        written = {str(file.location()): file for file in each(group.java.addedFiles())}
    rows = sum(_counted(table, written).values())
    if least <= rows <= most:
        return
    where = ", ".join(sorted(group.known.partitions - {""})) or "the table"
    several = f"{least}" if least == most else f"{least} to {most}"
    raise PermanentError(
        f"the files of {where} have {several} rows by their own footers, and the rewrite wrote {rows}: nothing is "
        "committed. A manifest may have wrong split_offsets, and then every engine skips rows. Compare the files with "
        f"what the table shows of them; if one has more rows, {_ANEW}"
    )


def _expected(table: OpenTable, group: MadeGroup) -> tuple[int, int]:
    """Return how many rows the old files of a group have without those that are deleted: at least, and at most. Delete
    files may delete a row twice.
    """
    with translated(Step.EXECUTE):
        tasks = {str(task.file().location()): task for task in each(group.java.fileScanTasks())}
    counted = _counted(table, {path: task.file() for path, task in tasks.items()})
    least = most = 0
    for path, task in tasks.items():
        with translated(Step.EXECUTE):
            claimed, deletes = int(task.file().recordCount()), [_deleted(delete) for delete in task.deletes()]
        rows = counted[path]
        if rows > claimed:
            raise PermanentError(
                f"{path} has {rows} rows, and its manifest claims {claimed}: Iceberg refuses a rewrite that seems to "
                f"add rows. {_ANEW.capitalize()}"
            )
        if rows < claimed:
            log.warning("manifest_claims_more_rows", file=path, rows=rows, claimed=claimed)
        exact = sum(delete.rows for delete in deletes if delete.is_exact)
        most += rows - exact
        least += max(0, rows - exact - sum(delete.rows for delete in deletes if not delete.is_exact))
    return least, most


@dataclass(frozen=True, kw_only=True, slots=True)
class _Deleted:
    """How many rows of a data file a delete file deletes: so many, or at most so many."""

    rows: int
    is_exact: bool


def _deleted(delete: Any) -> _Deleted:
    if str(delete.content()) == "EQUALITY_DELETES":  # one delete may concern all rows
        return _Deleted(rows=2**63, is_exact=False)
    return _Deleted(rows=int(delete.recordCount()), is_exact=str(delete.format()) == "PUFFIN")


def _counted(table: OpenTable, files: Mapping[str, Any]) -> Mapping[str, int]:
    return dict(read_ahead(files, lambda path: _rows_of(table, path, files[path])))


def _rows_of(table: OpenTable, path: str, file: Any) -> int:
    """Return how many rows a data file has, from its footer or the headers of its blocks. The store says how long the
    file is.
    """
    iceberg = table.jvm.org.apache.iceberg
    with translated(Step.EXECUTE):
        content = table.java.io().newInputFile(path)
        match str(file.format()):
            case "PARQUET":
                return int(
                    iceberg.parquet.ParquetUtil.fileMetrics(content, iceberg.MetricsConfig.getDefault()).recordCount()
                )
            case "ORC":
                return int(iceberg.orc.OrcMetrics.fromInputFile(content).recordCount())
            case "AVRO":
                return int(iceberg.avro.Avro.rowCount(content))
            case _:
                return int(file.recordCount())


# Writes file groups anew, several at a time, by Spark jobs with the name of the run.


class Writing:
    """The writing of some file groups: which groups were `written`, and the errors of the others.

    With `goes_on` the other groups are still written after one has failed. Without it no further group is begun. If the
    run was cancelled, or its JVM is gone (`stopped`), no group is begun in any case.
    """

    def __init__(
        self,
        table: OpenTable,
        groups: Sequence[MadeGroup],
        make_runner: MakeRunner,
        field_ids: FieldIds,
        *,
        goes_on: bool,
    ) -> None:
        self.written: list[MadeGroup] = []
        self.failures: list[Exception] = []
        self.stopped = False
        self._table = table
        self._field_ids = field_ids
        self._goes_on = goes_on
        self._groups = tuple(groups)
        with translated(Step.PLAN):  # an error here occurs again at every try
            self._session = session_to_write_in(table)
            self._runner = make_runner(table, self._session)
            self._runner.init(table.java_map({}))

    def carry_out(self, *, at_a_time: int) -> None:
        """Write the groups. Return when no thread is writing any more."""
        errors = carry_out(self._groups, self._write, at_a_time=at_a_time, stops=self._stops)
        self.failures, self.stopped = errors.failures, errors.stopped

    def _write(self, group: MadeGroup) -> None:
        self._field_ids.require_read(group.known)
        with translated(Step.EXECUTE):
            self._table.jvm.org.apache.spark.sql.SparkSession.setActiveSession(self._session)
            group.java.setOutputFiles(self._runner.rewrite(group.java))
        try:
            require_balance(self._table, group)
        except LakewardenError:
            discard(self._table, [group])
            raise
        self.written.append(group)

    def _stops(self, error: Exception) -> bool:
        return not self._goes_on or isinstance(error, JobsCancelledError | UnknownError)


def discard(table: OpenTable, groups: Sequence[MadeGroup]) -> None:
    """Delete the new files of groups that were not committed."""
    for group in groups:
        with on_the_way_out("delete what was written"):
            for file in each(group.java.addedFiles()):
                table.java.io().deleteFile(str(file.location()))


def session_to_write_in(table: OpenTable) -> Any:
    """Return a session with the settings that Iceberg's own action uses. Adaptive execution would change how rows are
    distributed over the files, and deletes of one group do not help another. Names are those of the table's schema: two
    columns may differ only by the case of their letters.
    """
    session = table.spark._jsparkSession.cloneSession()  # noqa: SLF001 - pyspark's own access to py4j
    session.conf().set("spark.sql.adaptive.enabled", "false")
    session.conf().set("spark.sql.caseSensitive", "true")
    session.conf().set("spark.sql.iceberg.executor-cache.delete-files.enabled", "false")
    return session


class RewriteSteps:
    """The three steps, and the abort: it deletes files that were written and that the run has not tried to commit."""

    everything = False
    """Whether all files of a partition are rewritten (`rewrite-all`)."""

    def __init__(self, table: OpenTable, options: RewriteOptions, make_runner: MakeRunner) -> None:
        self._table = table
        most = table.assignment.largest_plan
        options = options if most is None else options.model_copy(update={"max_bytes": min(options.max_bytes, most)})
        self._options = options
        self._make_runner = make_runner
        self._observations = RunObservations(table, options)
        mark = table.assignment.rewrite_all
        self._reach = None if mark is None else Reach.of_text(mark)
        self._field_ids = FieldIds(table)
        self._files_left = 0
        self._planned_from = 0
        self._chosen: Sequence[MadeGroup] = ()
        self._written: list[MadeGroup] = []
        self._committed = 0
        self._failures: list[Exception] = []

    def plan(self) -> Plan | NothingToDo:
        """Choose from the file groups of Iceberg's planner. Raises YieldError if writers touch all of them."""
        view = self._observations.observe()
        metadata, deletes = self._observations.metadata(), self._observations.deletes()
        everything = self.everything or self._reach is not None
        rules = thresholds(self._options, metadata.properties, everything=everything)
        keeps = kept_specs(deletes, metadata, self._table.options, view.observed_at)
        may = selection(self._options, metadata, reach=self._reach)
        may = replace(may, without=self._field_ids.lacking)
        planned = planned_groups(self._table, rules, self._observations, metadata, keeps=keeps, may=may)
        groups = planned if self._reach is not None else self.worthwhile(planned, rules, metadata)
        if not groups:
            what = "no file is left of those that were there when the rewrite was requested"
            if self._reach is None:
                what = "Iceberg's planner finds no files that are worth a rewrite"
            return self._field_ids.told_with(what)
        avoided = untouchable(view.writers, self._table.options, self._options, view.observed_at)
        chosen = taken(groups, avoided, self._options)
        if self._field_ids.lack_in(chosen):
            return self.plan()  # without the files that were found
        if are_expected(deletes, metadata):
            chosen = self._anchored(chosen)
        if not chosen:
            raise YieldError(
                "writers are active in every partition worth rewriting",
                delay=_first_free(groups, avoided) - view.observed_at,
            )
        self._chosen = [made(self._table, group, rules) for group in chosen]
        self._planned_from = metadata.current or 0
        self._files_left = _files(groups) - _files(chosen)
        return Plan(instant=None, file_groups=len(chosen), bytes=sum(group.known.bytes for group in chosen))

    def _anchored(self, groups: Sequence[FileGroup]) -> Sequence[FileGroup]:
        """Return the groups without the file that must stay because of equality deletes. If there are several commits,
        no file must stay, because the files of one commit are in the table during the others.
        """
        if self._options.partial_progress and min(len(groups), self._options.max_commits) > 1:
            return groups
        owners = {file.key: group for group in groups for file in group.files}
        files = [file for group in groups for file in group.files]
        left = anchored([group.known for group in groups], files, data_files=self._observations.data_files())
        return [owners[rest.keys[0]].left_with(rest) for rest in left]

    def worthwhile(
        self, groups: Sequence[FileGroup], rules: Thresholds, metadata: TableMetadata
    ) -> Sequence[FileGroup]:
        """Return the groups that the service would improve. By default all."""
        return groups

    def properties(self, snapshot: int, now: Mapping[str, str]) -> Mapping[str, str]:
        """Return the table's properties that the commit of this snapshot sets. `now` are the present properties. By
        default none.
        """
        return {}

    def execute(self, plan: Plan) -> None:
        """Write the new files without committing them. If a group fails, raise its error. With partial progress, raise
        it only if no group was written.
        """
        goes_on = self._options.partial_progress
        writing = Writing(self._table, self._chosen, self._make_runner, self._field_ids, goes_on=goes_on)
        try:
            writing.carry_out(at_a_time=self._options.max_concurrent_groups)
        finally:
            self._written = writing.written
        self._failures = writing.failures
        if self._failures and (writing.stopped or not self._written):
            raise self._failures[0]

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Exchange the files, after a last check. With partial progress a conflict loses only one part, and each
        further part is checked by itself. If a part is missing at the end, the run has failed, and none of its commits
        counts as complete.
        """
        self._observe_again(self._written)
        batches = self._batches()
        for number, batch in enumerate(batches, start=1):
            self._commit(batch, looks_again=number > 1, more=bool(self._failures) or number < len(batches))
        if self._failures:
            raise self._incomplete()
        self._follow_up()
        left = {} if self._reach is None else {"files_left": self._files_left}
        return {"file_groups": self._committed, **left, **self._field_ids.figures(), **figures_of(self._table)}

    def abort(self) -> None:
        """Delete the new files that the run has not tried to commit."""
        written, self._written = self._written, []
        discard(self._table, written)

    def _follow_up(self) -> None:
        """Do the work that follows the commit of the data files. By default there is none."""

    def _observe_again(self, groups: Sequence[MadeGroup]) -> None:
        """Raise YieldError in three cases: a writer has changed rows of a partition of the groups since the plan, a
        branch is about to become main, or the snapshot of the plan has expired. In the last case it is not known what
        was changed since. Rows that were only added do not conflict.
        """
        view = self._observations.observe()
        with translated(Step.PLAN):
            expired = self._table.java.snapshot(self._planned_from) is None
        if expired:
            raise YieldError("the snapshot from which the rewrite was planned has expired")
        for wait in kept_off_for_branches(
            self._observations.metadata(), self._table.options, view.observed_at
        ).values():
            raise YieldError(wait.reason, delay=timedelta(minutes=1))
        avoided = left_alone(view.writers, self._table.options, view.observed_at)
        partitions = frozenset[str]().union(*(group.known.partitions for group in groups))
        for partition in sorted(partitions & avoided.keys()):
            raise YieldError(
                f"{partition or 'the table'} is left alone for a writer's sake since the rewrite was planned",
                delay=avoided[partition] - view.observed_at,
            )

    def _batches(self) -> Sequence[Sequence[MadeGroup]]:
        """Return the groups of each commit. Groups of one partition are kept together as far as possible."""
        if not self._options.partial_progress:
            return [tuple(self._written)]
        ordered = sorted(self._written, key=lambda group: sorted(group.known.partitions))
        size = max(1, -(-len(ordered) // self._options.max_commits))
        return [ordered[start : start + size] for start in range(0, len(ordered), size)]

    def _commit(self, batch: Sequence[MadeGroup], *, looks_again: bool, more: bool) -> None:
        """Commit one part. If it certainly was not committed, its files are deleted."""
        self._written = [group for group in self._written if group not in batch]
        try:
            if looks_again:
                self._observe_again(batch)
            self._exchange(batch, more=more)
        except UnknownError:
            raise
        except LakewardenError as error:
            discard(self._table, batch)
            if not self._options.partial_progress or not isinstance(error, TemporaryError):
                raise
            self._failures.append(error)
        else:
            self._committed += len(batch)

    def _exchange(self, batch: Sequence[MadeGroup], *, more: bool) -> None:
        metadata = self._observations.metadata()
        planned = Planned(
            snapshot=self._planned_from,
            sequence=metadata.by_id[self._planned_from].sequence,
            left=frozenset[int]().union(*(group.known.left for group in batch)),
        )
        with translated(Step.COMMIT):
            has_row_ids = self._table.java.snapshot(planned.snapshot).firstRowId() is not None

        def look(proposed: Proposed) -> None:
            if proposed.parent == planned.snapshot:
                return  # no delete is newer than the plan
            if not has_row_ids and proposed.java.firstRowId() is not None:
                # The first commit after an upgrade to version 3 gives each row its id. Files that were written from
                # what was read before it have none, and their rows would get other ids (run).
                raise YieldError("the rows were given ids since the rewrite was planned: a new plan keeps the ids")
            storage = self._table.storage
            manifests = manifests_in(proposed.manifest_list, storage)
            why = refusal(planned, snapshot=proposed.id, manifests=manifests, metadata=metadata, storage=storage)
            if why is not None:
                raise YieldError(why)

        with translated(Step.EXECUTE):
            update = self._table.java.newRewrite().validateFromSnapshot(planned.snapshot)
            update.dataSequenceNumber(planned.sequence)  # deletes that were committed since must apply to the new files
            none = self._table.jvm.java.util.HashSet()
            for group in batch:
                files = group.java
                update.rewriteFiles(files.rewrittenFiles(), files.danglingDVs(), files.addedFiles(), none)
            for key, value in signature(self._table.assignment, more=more).items():
                update.set(key, value)
        exchange(self._table, update, look, properties=self.properties)

    def _incomplete(self) -> Exception:
        """Return the error of a run if some of its file groups were not committed."""
        first = self._failures[0]
        if not self._committed:
            return first
        done = ", ".join(f"{name} {count}" for name, count in figures_of(self._table).items())
        message = (
            f"{len(self._chosen) - self._committed} of {len(self._chosen)} file groups were not rewritten: {first} "
            f"(the others are committed: {done})"
        )
        if isinstance(first, PermanentError):
            return PermanentError(message)
        return TemporaryError(
            message, delay=first.delay if isinstance(first, TemporaryError) else timedelta(seconds=10)
        )


def _files(groups: Sequence[FileGroup]) -> int:
    return sum(group.known.files for group in groups)


def _first_free(groups: Sequence[FileGroup], avoided: Mapping[str, datetime]) -> datetime:
    """Return when a rewrite may take the first of the groups. Each has a partition that is left alone now."""
    return min(max(avoided[partition] for partition in group.known.partitions & avoided.keys()) for group in groups)
