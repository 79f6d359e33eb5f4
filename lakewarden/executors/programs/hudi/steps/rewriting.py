"""What compaction and log compaction share: Hudi schedules, executes and commits both in three similar calls."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from lakewarden.executors.contract import Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import (
    OpenTable,
    ProgramSteps,
    pending_plan,
    plan_of,
)
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.executors.programs.hudi.steps.listings import AT_ONCE, Listings
from lakewarden.executors.programs.java_errors import each
from lakewarden.planners.formats.hudi.history import completed_instants
from lakewarden.planners.formats.hudi.indexes.file_groups import why_not_clustered
from lakewarden.planners.formats.hudi.indexes.metadata_table import Committed, instants_of, left_out, named
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout
from lakewarden.planners.formats.hudi.metadata.plans import GIVEN_UP_KEY, RUN_KEY, DataFile
from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, InstantKind, Service, Step
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import Settings

# Writes that are rolled back after a rewrite was planned, as by `CALL rollback_to_instant`, and columns changed since.
#
# Hudi rolls a completed write back although a pending plan names its files (run, 1.2.0). A rewrite that has read them
# brings the rows of an undone write back, and loses those that an undone delete had dropped. Hudi commits it. So a
# commit looks for rollbacks while the table's lock is held. A rollback that begins later is one of a write that is
# compacted.
#
# A plan that is older than an `ALTER TABLE` with `hoodie.schema.on.read.enable` is not executed either. Hudi writes its
# files by the new columns, and readers read them by the columns at the plan's instant: a renamed column is NULL, and a
# table with a wider one cannot be read (run).


class UndoneError(YieldError):
    """What a rewrite has read, or is about to read, was rolled back, or is about to be, or has other columns now."""


def completed_writes(view: TableView) -> frozenset[str]:
    """Return the completed writes that the timeline shows. A rewrite that begins now may read each of them."""
    instants = view.timeline.instants
    return frozenset(
        instant.time for instant in instants if not instant.pending and instant.stands_for is InstantKind.WRITE
    )


def writes_named_by(files: Collection[DataFile]) -> frozenset[str]:
    """Return the instants in the names of a plan's files. Below table version 8 a log file bears that of its base
    file. A rollback does not delete it there, but appends to it.
    """
    return frozenset(time for file in files for time in instants_of(file.name) if time is not None)


def rollbacks_since(view: TableView, plan: str) -> Sequence[Instant]:
    """Return the rollbacks that were completed since a plan was made, or are pending."""
    rollbacks = (instant for instant in view.timeline.instants if instant.action == Action.ROLLBACK)
    return [rollback for rollback in rollbacks if rollback.pending or (rollback.completed_time or rollback.time) > plan]


def _columns_changed(table: OpenTable) -> int | None:
    """Return the instant of the newest schema that is read by the ids of columns. None if there is none."""
    schemas = None
    with contextlib.suppress(FileNotFoundError):
        schemas = next(table.storage.entries(f"{table.assignment.location}/.hoodie/.schema"), None)
    if schemas is None:  # as in nearly every table
        return None
    with translated(Step.PLAN):
        schema = table.client.evolved_schema()
    return None if schema is None else int(schema.schemaId())


def require_not_undone(table: OpenTable, view: TableView, plan: str, writes: Collection[str]) -> None:
    """Raise UndoneError if one of the `writes` was rolled back since a plan was made, or is about to be, or if columns
    were changed since. Raise TemporaryError if the plan of a rollback cannot be read.
    """
    changed = _columns_changed(table)
    if changed is not None and changed > int(plan):
        raise UndoneError(
            f"columns were changed at {changed}, since plan {plan} was made: a new plan is made with them"
        )
    for rollback in rollbacks_since(view, plan):
        undone = table.rollback_target(rollback.time).time
        if undone in writes:
            how = "is being" if rollback.pending else "was"
            raise UndoneError(
                f"write {undone} {how} rolled back since plan {plan} was made: a new plan reads without it"
            )


@contextlib.contextmanager
def reading(table: OpenTable, plan: str, writes: Collection[str]) -> Iterator[None]:
    """Let a rewrite read files that the `writes` have made. If that fails because one of them was rolled back
    meanwhile, raise UndoneError in place of Java's "file not found". To be used for what commits nothing.
    """
    try:
        yield
    except YieldError:
        raise
    except LakewardenError as error:
        try:
            require_not_undone(table, table.view(), plan, writes)
        except UndoneError as undone:
            raise undone from error
        except LakewardenError:
            pass  # the first error says more
        raise


_LONGEST_REASON = 300
_Options = TypeVar("_Options", bound=Settings)


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """The names of the three calls: the `TableServiceType`, and two methods of `SparkRDDWriteClient`."""

    service: Service
    schedule: str
    execute: str
    commit: str


class RewriteSteps(ProgramSteps[_Options]):
    """The three steps: plan, write the new files without committing them, commit them."""

    calls: Calls

    def __init__(self, table: OpenTable, options: _Options) -> None:
        super().__init__(table, options)
        self._written: Any = None
        self._statuses: Any = None
        self._files: Collection[DataFile] = ()
        self._file_groups = 0
        self._may_have_read: frozenset[str] = frozenset()

    def plan(self) -> Plan | None:
        """Schedule a rewrite, or take up the pending one that was assigned."""
        instant = self._table.assignment.instant or self._schedule()
        return None if instant is None else plan_of(self._pending(instant))

    def execute(self, plan: Plan) -> None:
        """Write the new files without committing them.

        From Hudi 1.1 on the call only prepares an RDD. Counting it writes the files, and keeping it makes the commit
        not write them again. Raises UndoneError if the plan names files of a write that was rolled back, and
        TemporaryError if a row could not be written.
        """
        self._table.before_a_commit()
        view = self._table.view()
        pending = pending_plan(view, self.calls.service, plan.on_timeline)
        self._files = self._table.files_of(pending)
        self._judge(view, pending.time, self._files)
        self._may_have_read = completed_writes(view)
        with translated(Step.EXECUTE):
            self._written = self._table.client.write(self.calls.execute, plan.on_timeline)
            self._statuses = self._written.getWriteStatuses()
            self._table.client.keep(self._statuses)
            self._file_groups = written_whole(self._statuses)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant. To be called under the lock. Raises UndoneError if a write that was read was rolled
        back.
        """
        client = self._table.client
        require_not_undone(self._table, self._table.view(), plan.on_timeline, self._may_have_read)
        self._table.stand_still_while_times_repeat()
        self._table.before_a_commit()
        with translated(Step.COMMIT):
            client.complete(self.calls.commit, plan.on_timeline, self._written)
        return {
            "file_groups": self._file_groups,
            "files_rewritten": len(self._files),
            "files_added": self._file_groups,
        }

    def _judge(self, view: TableView, instant: str, files: Collection[DataFile]) -> None:
        """Refuse a plan with these files that must not be executed."""
        require_not_undone(self._table, view, instant, writes_named_by(files))

    def _schedule(self) -> str | None:
        with translated(Step.PLAN):
            signature = {RUN_KEY: self._table.assignment.run}
            return self._table.client.schedule(self.calls.schedule, extra_metadata=signature)

    def _pending(self, instant: str) -> Instant:
        """Return the plan as the timeline shows it. Raises TemporaryError if it is not pending there."""
        return pending_plan(self._table.view(), self.calls.service, instant)


def written_whole(statuses: Any) -> int:
    """Let Hudi write what these write statuses tell of, and return how many they are.

    A row that cannot be written is an error in a status, and no exception (`WriteStatus.markFailure`). Hudi commits a
    rewrite all the same, and the row is gone (run). Raises TemporaryError for such a row, and Py4JJavaError.
    """
    written = int(statuses.count())
    # with a record index each status has all its keys: only those of one partition at a time fit into the driver
    large = written > 0 and statuses.first().isTrackingSuccessfulWrites()
    write_statuses = statuses.toLocalIterator() if large else statuses.collect()
    failed = next((status for status in write_statuses if status.hasErrors() or status.hasGlobalError()), None)
    if failed is not None:
        causes = [failed.getGlobalError(), *failed.getErrors().values()]
        why = next((str(cause.toString()) for cause in causes if cause is not None), "Hudi does not say why")
        raise TemporaryError(
            f"{int(failed.getTotalErrorRecords())} rows of file group {failed.getFileId()} could not be written, and "
            f"nothing was committed: {why.splitlines()[0][:_LONGEST_REASON]}"
        )
    return written


# How a plan of ours ends that is not executed, and that writers may have found on the timeline.
#
# A writer lists the timeline when it begins, and reads the plans that it has found there when its tasks run. If one is
# gone by then, the writer fails (docs/hudi.md, "Plans that a writer has seen"). On a table with several writers there
# is hardly ever a moment without a write. So a plan is removed only if no write is in flight. Otherwise it is completed
# without a file: it can still be read, and changes nothing. Our views of the timeline do not show it.
#
# A plan to resize buckets is never completed so. Writers write to its new buckets under the plan's own instant, and
# their rows would be there twice. If a write from before the plan would fail by it, the plan is removed. Otherwise
# `resizing` says how it ends.


def give_up(table: OpenTable, plan: str) -> None:
    """Undo what was written for the plan of a clustering or a log compaction, and end it. Do nothing to one that is
    completed or gone. Raises as `OpenTable.alone` and `refuse_foreign_plans` do.
    """
    with table.alone():
        give_up_alone(table, plan)


def give_up_alone(table: OpenTable, plan: str) -> None:
    """Do the same while the table's lock is held (`OpenTable.alone`): no write begins meanwhile."""
    table.refuse_foreign_plans()
    table.client.undo_rewrite(plan)
    table.reach(Point.WITHDRAWING)
    if table.writers_may_read_plans() and not _may_resize_buckets(table):
        table.client.complete_without_files(plan, extra_metadata={GIVEN_UP_KEY: table.assignment.run})
    else:
        table.client.remove_plan(plan)


def _may_resize_buckets(table: OpenTable) -> bool:
    """Whether a clustering of the table may resize buckets, by its owner's declaration or by what it shows."""
    if table.assignment.service is not Service.CLUSTERING:
        return False
    return (
        table.options.bucket_index is not None
        or why_not_clustered(None, table.assignment.location, table.storage) is not None
    )


# Plans that leave out a file. Hudi plans from its metadata table and from its active timeline, not from the folders.
#
# If the metadata table has lost the entry of a file, or an archive has gone past an instant that stayed on the
# timeline, the plan does not name the file. The rewrite then loses its rows for good, and Hudi calls that a success
# (run with 1.2.0). So a plan is compared with a listing of its partitions, and with what the archive says was
# committed.


class IncompletePlanError(PermanentError):
    """A plan does not name a file that it should read."""


def require_whole_plan(table: OpenTable, service: Service, instant: str, files: Collection[DataFile]) -> None:
    """Raise IncompletePlanError if a plan does not name a file that it should read. Raise PermanentError if it names a
    file outside the table, and TemporaryError if the archive cannot be read. The timeline is read first: a commit after
    it is no part of the plan.
    """
    view, properties, missing = table.view(), table.properties(), set[DataFile]()
    completed = completed_instants(view.timeline.instants, properties, table.storage)
    if not properties.has_metadata_table and completed.passed is None:
        return
    committed = Committed(
        instants=completed,
        appended=properties.layout is Layout.V1,
        quiet=not view.writers.in_flight and not rollbacks_since(view, instant),
    )
    partitions, listings = sorted({file.partition for file in files}), Listings(table.client)
    for start in range(0, len(partitions), AT_ONCE):
        with translated(Step.PLAN):
            stored = listings.stored(partitions[start : start + AT_ONCE])
        missing |= left_out(files, stored, committed, at=instant, logs_alone=service is Service.LOG_COMPACTION)
    if missing:
        table.refuse_foreign_plans()
        name = table.assignment.table
        if completed.passed is not None:
            cause, cure = _passed(completed.passed, name)
        else:
            cause = "the metadata table does not list them"
            cure = (
                "rebuild the metadata table (services: {metadata_rebuild: {}} and lakewarden trigger "
                f"{name} metadata_rebuild), roll the plan back if it is still pending"
            )
        raise IncompletePlanError(
            f"plan {instant} leaves out {named(missing)}, and the {service} would lose the rows there: {cause}. To go "
            f"on, {cure}, and release the service (lakewarden quarantine release {name} {service})"
        )


def _passed(instant: Instant, table: str) -> tuple[str, str]:
    """Return why Hudi ignores files of archived commits, and what an operator does."""
    what = f"{instant.action} {instant.time}"
    ends = f"let {what} be carried out or take its files off the timeline, then " if instant.pending else ""
    return (
        f"an archive has gone past {what}, which stayed on the timeline, and Hudi takes commits that were archived "
        "after it for never committed",
        f"{ends}let an archive move {what} (lakewarden trigger {table} archive)",
    )


# Rows that a rewrite keeps only if Hudi is told of them, or not at all: partial updates, and rows with an operation.
#
# `MERGE INTO` writes only the changed columns by default, in log blocks that are marked as partial. A log compaction of
# 1.2.0 loses them (run). Flink's changelog mode keeps a deleted row as a row, with `D` in its `_hoodie_operation`. A
# rewrite without `hoodie.allow.operation.metadata.field` drops the column, and deleted rows return (run). No property
# of the table shows either. The headers of log blocks and the base files do.

_AT_ONCE = 16
_OPERATION = "_hoodie_operation"
_LOG = ".log."
_HEADER_BYTES = 64 * 1024
"""The buffer for reading headers. Hudi's own has 16 MiB, so a file would be read whole."""
_CHANGES = ".cdc"
"""How log files end that hold the changes of a write for its consumers (`hoodie.table.cdc.enabled`). They hold no rows
of the table, and their blocks cannot be opened as such (run on 1.2.0).
"""


class _Log(NamedTuple):
    """What the headers of a log file's blocks show."""

    file: DataFile
    partial: bool
    operations: bool


def refuse_log_compaction(client: HudiClient, files: Collection[DataFile]) -> None:
    """Raise PermanentError if a log compaction of these files would lose rows."""
    for log in _logs(client, files):
        if log.partial or log.operations:
            what = "partial updates" if log.partial else f"rows with an operation ({_OPERATION})"
            raise PermanentError(
                f"the table has {what}, which Hudi's log compaction loses and a compaction keeps ({log.file.name}): "
                "remove services.log_compaction"
            )


def keep_operations(client: HudiClient, files: Collection[DataFile]) -> bool:
    """Let Hudi keep the operations of the rows in these files. Return whether there is any."""
    has_operations = any(log.operations for log in _logs(client, files)) or _in_base_files(client, files)
    if has_operations:
        client.java.getConfig().setValue("hoodie.allow.operation.metadata.field", "true")
    return has_operations


def _logs(client: HudiClient, files: Collection[DataFile]) -> Iterator[_Log]:
    with translated(Step.PLAN), ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="log-blocks") as threads:
        try:
            logs = sorted(file for file in files if _LOG in file.name and not file.name.endswith(_CHANGES))
            yield from threads.map(lambda file: _read(client, file), logs)
        finally:
            threads.shutdown(cancel_futures=True)


def _read(client: HudiClient, file: DataFile) -> _Log:
    logs = client.hudi.common.table.log
    header = getattr(logs.block, "HoodieLogBlock$HeaderMetadataType")
    named = client.hudi.common.model.HoodieLogFile(_path(client, file))
    partial = operations = False
    reader = logs.HoodieLogFileReader(client.storage, named, None, _HEADER_BYTES)  # it skips what a block holds
    try:
        for block in each(reader):
            headers = block.getLogBlockHeader()
            partial = partial or bool(headers.containsKey(header.IS_PARTIAL))
            operations = operations or f'"{_OPERATION}"' in str(headers.get(header.SCHEMA))
    finally:
        reader.close()
    return _Log(file, partial, operations)


def _in_base_files(client: HudiClient, files: Collection[DataFile]) -> bool:
    """Whether a row in the base files has an operation. A file without the column costs the reading of its footer."""
    with translated(Step.PLAN):
        return any(_has_operation(client, files, kind) for kind in ("parquet", "orc"))


def _has_operation(client: HudiClient, files: Collection[DataFile], kind: str) -> bool:
    paths = [_path(client, file) for file in files if file.name.endswith(f".{kind}")]
    rows: Any = client.session.read.schema(f"{_OPERATION} string")
    return bool(paths) and not rows.format(kind).load(paths).where(f"{_OPERATION} is not null").isEmpty()


def _path(client: HudiClient, file: DataFile) -> str:
    return f"{client.base}/{file.partition}/{file.name}" if file.partition else f"{client.base}/{file.name}"
