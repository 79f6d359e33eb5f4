"""Indexing: indexes of the metadata table are built or dropped. An index that an indexer only planned is finished.

An index is built in one hold of the table's lock, in a moment without a write in flight. Hudi takes what is committed
beside a build for indexed, and it is not (docs/hudi.md). The index is listed in the table's properties only when it is
complete. Until then it is neither read nor kept up. A drop takes an index out of the properties first, under the lock,
and deletes its files afterwards.

A build that was begun is left alone: before Hudi 1.1 an indexer shows no heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta

from lakewarden.executors.contract import GOES_ON, NothingToDo, Plan
from lakewarden.executors.points import Point
from lakewarden.executors.programs.hudi.client.errors import translated
from lakewarden.executors.programs.hudi.client.opened import OpenTable, ProgramSteps, pending_plan, program
from lakewarden.executors.programs.hudi.steps.listings import (
    AT_ONCE,
    Listings,
    alone_between_writes,
    refuse_what_stops_a_build,
)
from lakewarden.executors.programs.hudi.steps.metadata_table_removal import Remains
from lakewarden.planners.formats.hudi.history import completed_instants
from lakewarden.planners.formats.hudi.indexes.indexes import (
    COLUMNS,
    Definition,
    Indexes,
    at_once,
    read_indexes,
    switches,
    to_build,
    to_drop,
)
from lakewarden.planners.formats.hudi.indexes.metadata_table import Committed, Differences, Folders, differences, named
from lakewarden.planners.formats.hudi.metadata.names import Action, Layout
from lakewarden.planners.formats.hudi.metadata.plans import planned_indexes
from lakewarden.planners.formats.hudi.options.service_options import (
    BuiltIndex,
    IndexingOptions,
    MetadataRebuildOptions,
    NoOptions,
)
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, InstantKind, Service, State, Step
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import format_duration, format_size, shown

_MAY_TAKE = timedelta(minutes=10)
_UNTIL_SILENT = timedelta(minutes=3)
_UNTIL_A_GAP = timedelta(minutes=1)
_STATS = "column_stats"
_OF_KEYS = "record_index"
_OF_ALL_KEYS, _OF_EACH_PARTITION = (f"hoodie.metadata.{kind}record.level.index.enable" for kind in ("global.", ""))
_KEY_COLUMN, _PARTITION_COLUMN = "_hoodie_record_key", "_hoodie_partition_path"
_BUILT = frozenset({*map(str, BuiltIndex), "partition_stats"})


class IndexingSteps(ProgramSteps[IndexingOptions]):
    """The steps."""

    def __init__(self, table: OpenTable, options: IndexingOptions) -> None:
        super().__init__(table, options)
        self._building: Sequence[str] = ()

    def plan(self) -> Plan | NothingToDo:
        """Take up the assigned plan, or say what is to be built, or else what is to be dropped."""
        if self._table.assignment.instant is not None:
            return self._taken_up(self._table.assignment.instant)
        self._building = at_once(to_build(self._options, self._table.properties()))
        if self._building:
            self._judge(self._building)
            refuse_what_stops_a_build(self._table, self._table.view())
        elif not to_drop(self._options, self._indexes().complete):
            return NothingToDo(reason="the table has the indexes that it should have")
        return Plan(instant=None)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Build the missing indexes, or drop the unwanted ones. Raises YieldError beside a write in flight."""
        self._table.before_a_commit()
        if not self._building:
            dropped = to_drop(self._options, self._indexes().complete)
            with translated(Step.COMMIT):
                self._table.client.drop_indexes(dropped)
            return {"indexes_dropped": len(dropped)}
        with alone_between_writes(self._table, _in_flight, why=_why, within=_UNTIL_A_GAP) as view:
            began = self._table.clock.monotonic()
            self._build(plan, view)
            held = self._table.clock.monotonic() - began
        missing = sorted(set(self._building) - self._indexes().complete)
        if missing:
            raise TemporaryError(f"Hudi has not built {missing[0]}: the worker's log says why")
        more = {GOES_ON: 1} if plan.instant is None and to_build(self._options, self._table.properties()) else {}
        return {"indexes_built": len(self._building), "lock_held_seconds": round(held, 3), **more}

    def _build(self, plan: Plan, view: TableView) -> None:
        """To be called under the lock."""
        client, indexes = self._table.client, self._indexes()
        definitions = dict(indexes.definitions)
        if _STATS not in indexes.complete and self._options.columns:
            definitions[_STATS] = Definition(columns=self._options.columns)
        kept_up = switches(Indexes(complete=indexes.complete | set(self._building), definitions=definitions))
        with translated(Step.COMMIT):
            if plan.instant is None:
                refuse_what_stops_a_build(self._table, view)
                client.keep_up({**kept_up, "hoodie.metadata.index.async": "false"})
                client.make_metadata_table()
            else:
                self._refuse_what_was_overtaken(plan.instant, view)
                client.keep_up(kept_up)
                client.java.index(plan.instant)

    def _taken_up(self, instant: str) -> Plan:
        """Return the plan of an indexer, or of an earlier run, that was not begun.

        Raises YieldError if it was begun. Raises TemporaryError for a build that an earlier JVM has left
        unfinished: Hudi undoes it when its heartbeat is silent.
        """
        pending = pending_plan(self._table.view(), Service.INDEXING, instant)
        if pending.state is State.INFLIGHT and pending.last_beat is not None:
            with translated(Step.PLAN):
                self._table.client.java.lazyRollbackFailedIndexing()
            raise TemporaryError(f"indexing {instant} was left unfinished, and is undone first", delay=_UNTIL_SILENT)
        if pending.state is State.INFLIGHT:
            raise YieldError(f"indexing {instant} was begun, perhaps by an indexer that is alive", delay=_MAY_TAKE)
        self._building = self._table.read_plan(
            instant, Action.INDEXING, lambda chunks: [name for chunk in chunks for name in planned_indexes(chunk)]
        )
        unknown = sorted(set(self._building) - _BUILT)
        if unknown or len(self._building) > 1:
            what = unknown[0] if unknown else "several indexes"
            raise PermanentError(f"indexing {instant} builds {what}, which only its own indexer can: run that")
        self._judge(self._building)
        return Plan(instant=instant)

    def _refuse_what_was_overtaken(self, instant: str, view: TableView) -> None:
        """Raise PermanentError if Hudi would leave out what was committed since a plan was made. It lists files up to
        the plan, for any index but that of keys.
        """
        since = [
            entry.time
            for entry in view.timeline.instants
            if entry.stands_for is InstantKind.WRITE and entry.time > instant
        ]
        if since and list(self._building) != [_OF_KEYS]:
            raise PermanentError(
                f"indexing {instant} would leave out write {since[0]}, which was committed since: let its own indexer "
                "plan it again, or remove it, and a policy of indexing builds the index"
            )

    def _judge(self, building: Sequence[str]) -> None:
        """Raise PermanentError if an index could not be built, or not be kept up afterwards."""
        size = Listings(self._table.client).bytes_stored()
        if size > self._options.largest_table:
            raise PermanentError(
                f"the table has {format_size(size)}, and its writers would wait for the lock while {building[0]} is "
                f"built: raise largest_table ({format_size(self._options.largest_table)}), or let a writer build it"
            )
        if _STATS in building:
            self._judge_columns()
        if _OF_KEYS in building and self._table.assignment.instant is None:
            _require_unique_keys(self._table)

    def _judge_columns(self) -> None:
        if not self._options.columns and not self._table.options.conf.get(COLUMNS):
            raise PermanentError(f"{_STATS} are planned: name their columns in the policy's options")
        if self._options.columns and self._table.properties().layout is Layout.V1:
            raise PermanentError(
                f"a table below version 8 does not name the columns of its {_STATS}: let its writers build them, "
                f"and name the columns under options.conf: {COLUMNS}"
            )
        missing = sorted({column.partition(".")[0] for column in self._options.columns} - self._table.client.columns())
        if missing:
            raise PermanentError(f"columns: the table has no column {shown(missing[0])}")

    def _indexes(self) -> Indexes:
        return read_indexes(self._table.assignment.location, self._table.properties(), self._table.storage)


def _in_flight(view: TableView) -> Sequence[Instant]:
    return view.writers.in_flight


def _why(write: Instant) -> str:
    return f"write {write.time} is in flight: what it commits beside a build would not be in the index"


def _require_unique_keys(table: OpenTable, *within: str) -> None:
    """Raise PermanentError if a key is in the table twice, or twice `within` the same values of other meta columns.
    Hudi cannot build a record index then, and finds that out when the old one is gone already (run, 1.2.0).

    All rows are read, by the folders. A table without meta fields has no column of keys, and is not looked at.
    """
    client = table.client
    if not client.table().getMetaClient().getTableConfig().populateMetaFields():
        return
    with translated(Step.PLAN):
        rows = client.session.read.format("hudi").option("hoodie.metadata.enable", "false").load(client.base)
        twice = rows.groupBy(*within, _KEY_COLUMN).count().where("count > 1").first()
    if twice is not None:
        raise PermanentError(
            f"the key {shown(twice[_KEY_COLUMN])} is in the table {twice['count']} times, and Hudi cannot build a "
            "record index of such a table: delete all rows but one of each key, or do without that index"
        )


Indexing = program(IndexingSteps, IndexingOptions)
"""The indexing program. An abort leaves everything as it is."""


# Metadata validation: compares the metadata table's lists with the files in the table's folders. It changes nothing.
#
# Hudi reads both, and lists the folders in Spark tasks. Writers go on meanwhile. So only a difference of completed
# commits that two looks agree on counts. While a clean or a rollback deletes, no file counts as missing.

_DELETING = frozenset({Service.CLEAN, Service.ROLLBACK})


class MetadataValidationSteps(ProgramSteps[NoOptions]):
    """The steps. The last reports what the second has found."""

    def __init__(self, table: OpenTable, options: NoOptions) -> None:
        super().__init__(table, options)
        self._listings = Listings(table.client)
        self._figures: Mapping[str, int | str] = {}

    def plan(self) -> Plan | NothingToDo:
        """Check whether there is a metadata table."""
        if not self._table.properties().has_metadata_table:
            return NothingToDo(reason="the table has no metadata table")
        return Plan(instant=None)

    def execute(self, plan: Plan) -> None:
        """Compare the two, and compare differences once more. A few partitions are in memory at a time."""
        with translated(Step.EXECUTE):
            partitions = self._listings.partitions()
        differences, files = Differences(), 0
        for start in range(0, len(partitions), AT_ONCE):
            some = partitions[start : start + AT_ONCE]
            once, counted = self._compared(some)
            again = self._compared(once.partitions())[0] if once.partitions() else Differences()
            still = once.still(again)
            differences = Differences(unknown=differences.unknown | still.unknown, gone=differences.gone | still.gone)
            files += counted
        self._figures = {
            "partitions": len(partitions),
            "files": files,
            "files_unknown_to_metadata": len(differences.unknown),
            "files_only_in_metadata": len(differences.gone),
            "partitions_that_differ": len(differences.partitions()),
        }
        texts = {"unknown_to_metadata": named(differences.unknown), "only_in_metadata": named(differences.gone)}
        self._figures |= {key: text for key, text in texts.items() if text}

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Report the differences, by name."""
        return self._figures

    def _compared(self, partitions: list[str]) -> tuple[Differences, int]:
        """Return how these partitions differ, and how many files they have. The timeline is read first, then the
        metadata table, then the folders: a commit in between is no difference in either of them.
        """
        view = self._table.view()
        with translated(Step.EXECUTE):
            metadata_files = self._listings.known(partitions)
            stored = self._listings.stored(partitions)
        difference = differences(metadata_files, stored, self._committed(view))
        if _deletes(view) or _deletes(self._table.view()):
            difference = Differences(unknown=difference.unknown)
        return difference, _count(stored)

    def _committed(self, view: TableView) -> Committed:
        properties = self._table.properties()
        return Committed(
            instants=completed_instants(view.timeline.instants, properties, self._table.storage),
            appended=properties.layout is Layout.V1,
            quiet=not view.writers.in_flight,
        )


def _deletes(view: TableView) -> bool:
    return any(instant.pending and instant.stands_for in _DELETING for instant in view.timeline.instants)


def _count(folders: Folders) -> int:
    return sum(len(names) for names in folders.values())


MetadataValidation = program(MetadataValidationSteps, NoOptions)
"""The program. It changes nothing."""


# Metadata rebuild: the metadata table is dropped and made anew, because an operator has asked for it.
#
# All of it happens in one hold of the table's lock, in a moment in which nothing is in flight. No write begins or
# commits meanwhile, so none sees a table with incomplete indexes. The metadata table is first removed from the table's
# properties, and is not read any more. Then its files are deleted, and Hudi makes it from the table's folders and
# files, with the indexes that it had. Each index is listed in the properties only when it is complete. A kill at any
# step leaves a table without metadata table, or with some of its indexes: readers list folders instead, and a writer
# makes its own.

_LONGEST_LISTING = timedelta(minutes=2)
"""Hudi lists the table once more under the lock, and its writers try for ten minutes to get it (`LEAST_RETRY_TIME`)."""

_AT_ONCE = {"hoodie.metadata.index.async": "false"}


class MetadataRebuildSteps(ProgramSteps[MetadataRebuildOptions]):
    """The steps."""

    def plan(self) -> Plan | NothingToDo:
        """Check whether there is a metadata table, and whether the table's folders are listed soon.

        Raises PermanentError if they are not: the writers would wait for the lock for as long.
        """
        if not self._table.properties().has_metadata_table:
            return NothingToDo(
                reason="the table has no metadata table: a writer that keeps one makes it when it writes"
            )
        self._nothing_else_is_in_flight(self._table.view())
        began = self._table.clock.monotonic()
        with translated(Step.PLAN):
            files = Listings(self._table.client).count_stored()
        took = timedelta(seconds=round(self._table.clock.monotonic() - began))
        if took > _LONGEST_LISTING:
            raise PermanentError(
                f"it takes {format_duration(took)} to list the table's {files} files, and its writers would wait for "
                "that: stop them, CALL delete_metadata_table, and let a writer's next commit make it"
            )
        kept_up = switches(self._indexes())
        if kept_up[_OF_EACH_PARTITION] == "true":
            _require_unique_keys(self._table, _PARTITION_COLUMN)
        elif kept_up[_OF_ALL_KEYS] == "true":
            _require_unique_keys(self._table)
        return Plan(instant=None)

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Drop it and make it. Raises YieldError if something is in flight all the time."""
        self._table.refuse_foreign_plans()
        with alone_between_writes(
            self._table,
            lambda view: view.writers.in_flight,
            why=_why_rebuild,
            within=self._options.max_wait_for_writers,
            judge=self._nothing_else_is_in_flight,
        ):
            began = self._table.clock.monotonic()
            had = self._make_anew()
            held = self._table.clock.monotonic() - began
        missing = sorted(had.complete - self._table.properties().metadata_partitions)
        if missing:
            raise TemporaryError(f"the metadata table was made without {missing[0]}: the worker's log says why")
        return {"indexes": ", ".join(sorted(had.complete)), "lock_held_seconds": round(held, 3)}

    def _indexes(self) -> Indexes:
        return read_indexes(self._table.assignment.location, self._table.properties(), self._table.storage)

    def _nothing_else_is_in_flight(self, view: TableView) -> None:
        """Raise YieldError for an instant that is no write: an index that is being built, one that was left pending, or
        one beside which Hudi makes no metadata table.
        """
        refuse_what_stops_a_build(self._table, view)
        writes = {write.time for write in view.writers.in_flight}
        for instant in view.timeline.instants:
            planned = instant.state is State.REQUESTED and instant.stands_for is not Service.INDEXING
            if instant.pending and instant.time not in writes and not planned:
                raise YieldError(f"{instant.action} {instant.time} is pending: it is finished or undone first")

    def _make_anew(self) -> Indexes:
        """Make it anew and return its indexes, which are the same as before. To be called under the lock."""
        client, table = self._table.client, self._table
        had = self._indexes()
        remains = Remains(client, table.storage)
        with translated(Step.COMMIT):
            remains.undo_rewrites(table.properties())
            table.reach(Point.REBUILDING)
            client.forget_metadata_table()
            table.reach(Point.REBUILDING)
            remains.delete()
            table.reach(Point.REBUILDING)
            client.keep_up({**switches(had), **_AT_ONCE})
            client.make_metadata_table()
            table.reach(Point.REBUILDING)
        return had


def _why_rebuild(write: Instant) -> str:
    return f"write {write.time} is in flight, and at work in the metadata table, which must not be rebuilt meanwhile"


MetadataRebuild = program(MetadataRebuildSteps, MetadataRebuildOptions)
"""The program. An abort leaves everything as it is."""
