"""A table that is opened for one run: Hudi's client to change it, and our own reader to observe it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from lakewarden.executors import points
from lakewarden.executors.contract import Assignment, Plan, Program, Steps
from lakewarden.executors.points import Point
from lakewarden.executors.programs.bracket import Bracket
from lakewarden.executors.programs.hudi.client.errors import LockHeldError, on_the_way_out, translated
from lakewarden.executors.programs.hudi.client.write_client import HudiClient
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.backlog.blockers import broken_off
from lakewarden.planners.formats.hudi.deletion.foreign import foreign_plan_for, named_folders, stray_folder
from lakewarden.planners.formats.hudi.format import THOROUGH
from lakewarden.planners.formats.hudi.indexes.indexes import index_blocker, indexing_under_way, read_indexes, switches
from lakewarden.planners.formats.hudi.metadata import plans
from lakewarden.planners.formats.hudi.metadata.heartbeats import with_beats_seen, without_a_beat_seen
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFile, InstantFiles, file_name
from lakewarden.planners.formats.hudi.metadata.payloads import (
    MALFORMED,
    Chunks,
    UnreadableError,
    first,
    read_chunks,
    whole_timeline,
)
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, merged
from lakewarden.planners.formats.hudi.metadata.properties import TableProperties, read_table_properties
from lakewarden.planners.formats.hudi.metadata.timeline import shown_twice_until
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.formats.hudi.writers.activity import may_read
from lakewarden.planners.formats.shared_folder import require_own_folder
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import PermanentError, TemporaryError, YieldError
from lakewarden.planners.model.instant import Instant, Service, State, Step, Timeline
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage
from lakewarden.planners.settings import Settings

# The table's timeline, read without the JVM: the plans of Hudi's client, and the instants in flight beside us.

_T = TypeVar("_T")


class RunObservations:
    """The observations of one run of its table. Each also knows what the earlier ones have shown."""

    def __init__(self) -> None:
        self._last: Observation | None = None
        self._gone: dict[str, datetime] = {}

    @property
    def seen(self) -> Timeline | None:
        """The timeline of the last observation; None before the first."""
        return None if self._last is None else self._last.view.timeline

    def observe(
        self,
        assignment: Assignment,
        options: HudiTableOptions,
        storage: Storage,
        *,
        now: datetime,
        commits: bool = False,
    ) -> TableView:
        """Return the table as it is now, with `commits` also what each of them wrote. Heartbeats that the daemon has
        seen guard the writes, too. Raises TemporaryError if the table cannot be read whole.
        """
        table = Table(id=assignment.table, format=HUDI.name, location=assignment.location, options=options)
        reader = THOROUGH if commits else HUDI
        observation = reader.observe(table, storage, self._last, now=now)
        if observation.view.faults:
            raise TemporaryError(observation.view.faults[0])
        self._last = observation
        beats = assignment.last_beats
        for write in without_a_beat_seen(observation.view, beats):
            self._gone.setdefault(write, assignment.stopped_beats.get(write, now))
        return with_beats_seen(observation.view, beats, gone=self._gone)


def pending_plan(view: TableView, service: Service, instant: str) -> Instant:
    """Return a service's plan as the timeline shows it. Raises TemporaryError if it is not pending there."""
    for plan in view.timeline.pending(service):
        if plan.time == instant:
            return plan
    raise TemporaryError(f"{service} {instant} is not pending on the timeline")


def plan_of(instant: Instant) -> Plan:
    """Return a pending rewrite's plan as it is reported to the daemon."""
    size = instant.plan
    return Plan(
        instant=instant.time,
        file_groups=None if size is None else size.file_groups,
        bytes=None if size is None else size.bytes,
    )


_UNTIL_A_GAP = timedelta(seconds=10)
_BEGUN_UNDER_THE_LOCK = 9
"""From this table version on all writers make their first file under the table's lock (read: 1.1.1 and 1.2.0). A writer
of 1.0.2 makes its instant's time under the lock, and the file a moment later."""
_UNTIL_A_FIRST_FILE = timedelta(milliseconds=300)

_Options = TypeVar("_Options", bound=Settings)


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenTable:
    """The open table that every program works with."""

    client: HudiClient
    assignment: Assignment
    options: HudiTableOptions
    storage: Storage
    clock: Clock
    observations: RunObservations = field(default_factory=RunObservations)

    def view(self, *, commits: bool = False) -> TableView:
        """Return the table as it is now, with `commits` also what each of them wrote. Raises TemporaryError if it
        cannot be read whole.
        """
        return self.observations.observe(
            self.assignment, self.options, self.storage, now=self.clock.now(), commits=commits
        )

    def properties(self) -> TableProperties:
        """Return what `hoodie.properties` says now. Raises as `read_table_properties` does."""
        return read_table_properties(self.assignment.location, self.storage)

    def files_of(self, rewrite: Instant) -> frozenset[DataFile]:
        """Return the files that a pending rewrite reads. Raises as `read_plan` does."""
        clusters = rewrite.stands_for is Service.CLUSTERING
        decode: Callable[[Mapping[str, Any]], plans.HudiPlan | None]
        decode = plans.clustering_plan if clusters else plans.compaction_plan
        plan = self.read_plan(rewrite.time, Action(rewrite.action), lambda chunks: merged(chunks, decode))
        return frozenset() if plan is None else plan.files

    def clean_size(self, clean: str) -> plans.Cleaned:
        """Return how much a pending clean deletes. Raises as `read_plan` does."""
        return self.read_plan(clean, Action.CLEAN, plans.clean_size)

    def clean_paths(self, clean: str) -> Iterator[str]:
        """Yield where the files are that a pending clean deletes. Raises as `read_plan` does."""
        files = self.read_plan(
            clean,
            Action.CLEAN,
            lambda chunks: [file for chunk in chunks for file in plans.clean_plan(chunk).files],
        )
        for file in files:
            yield f"{self.assignment.location}/{file.partition}".rstrip("/") + f"/{file.name}"

    def retained_by(self, clean: str) -> str | None:
        """Return from which commit on a pending clean leaves everything (`earliestInstantToRetain`). None if it counts
        versions of files, and so does not say it. Raises as `read_plan` does.
        """
        return self.read_plan(
            clean, Action.CLEAN, lambda chunks: plans.retained(first(chunks, "earliestInstantToRetain"))
        )

    def rollback_target(self, rollback: str) -> plans.RollbackTarget:
        """Return what a rollback undoes, pending or completed. Raises as `read_plan` does."""
        return self.read_plan(
            rollback, Action.ROLLBACK, lambda chunks: plans.rollback_target(first(chunks, "instantToRollback"))
        )

    def read_plan(self, instant: str, action: Action, what: Callable[[Chunks], _T]) -> _T:
        """Return what `what` finds in the plan of an instant. Raises TemporaryError if it is unreadable."""
        name = file_name(InstantFile(time=instant, action=action, state=State.REQUESTED))
        try:
            return what(read_chunks(self.storage, f"{self.properties().timeline_folder}/{name}"))
        except (FileNotFoundError, UnreadableError, *MALFORMED) as error:
            raise TemporaryError(f"{name} cannot be read: {error}") from error

    def whole_timeline(self, properties: TableProperties) -> Sequence[InstantFiles]:
        """Return the active timeline as it is now. It must hold everything that the run has observed before. Raises as
        `whole_timeline` does.
        """
        return whole_timeline(properties, self.storage, known=self.observations.seen)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the table's lock. Meanwhile no writer begins, checks its commit or completes one.

        An observation within it shows every write that has begun. To be held briefly, because writers wait for it.
        Raises LockHeldError if the lock is not free in time.
        """
        with translated(Step.COMMIT), self.client.alone():
            if self.client.table_version < _BEGUN_UNDER_THE_LOCK:
                time.sleep(_UNTIL_A_FIRST_FILE.total_seconds())
            yield

    def reach(self, point: Point) -> None:
        """Pass a fault point."""
        points.reach(point, run=self.assignment.run, service=self.assignment.service)

    def refuse_foreign_plans(self) -> None:
        """Raise PermanentError if Hudi, asked for this run's service, may also execute a pending plan that names files
        outside the table. To be called right before anything is executed or rolled back. It changes nothing.
        """
        location, storage = self.assignment.location, self.storage
        reason = stray_folder(location, self.properties(), named=named_folders(location, storage)) or foreign_plan_for(
            self.assignment.service, location, storage, earlier_timeline=self.observations.seen
        )
        if reason is not None:
            raise PermanentError(f"{reason}: nothing is executed")

    def before_a_commit(self) -> None:
        """Refuse foreign plans, and let Hudi keep up the table's indexes as they are now: a writer may have made some
        since the table was opened. Raises TemporaryError if they cannot be kept up.
        """
        self.refuse_foreign_plans()
        self.keep_up_indexes()

    def keep_up_indexes(self) -> None:
        """Let Hudi keep up the table's indexes as they are now. Raises TemporaryError if they cannot be kept up."""
        self.client.keep_up(_index_switches(self.assignment, self.options, self.storage))

    def stand_still_while_times_repeat(self) -> None:
        """Raise YieldError if an instant of this moment would bear a time that the wall clock shows twice.

        To be called before a plan is made, and before the commit of long work. A JVM that stamps in the first of the
        two hours holds the table's lock, again and again, for all of the second (`shown_twice_until`).
        """
        now, zone = self.clock.now(), self.client.zone
        until = shown_twice_until(now, zone)
        if until is not None:
            clock_time = f"{until.astimezone(zone):%H:%M} of {zone}"
            raise YieldError(
                f"clocks are put back, and show times twice until {clock_time}: Hudi orders everything by them",
                delay=until - now,
            )

    def roll_back(self, write: str) -> bool:
        """Undo a write that is still pending, and remove its heartbeat. Do nothing and return False if it is not.

        Hudi plans the rollback from what the write has left, its markers included. So that plan is judged like any
        other before it is executed. Raises as `refuse_foreign_plans` does.
        """
        if not self.client.plan_rollback(write):
            return False
        self.refuse_foreign_plans()
        return self.client.finish_rollback(write)

    def withdraw(self, plan: str, *, by: Callable[[str], bool] | None = None) -> bool:
        """Remove a plan of ours between two writes; `by` is called with it under the table's lock. If there is no such
        moment soon, leave the plan and return False; by default also if the plan was begun.

        A writer reads the plans that it found on the timeline only when its tasks run, and fails if one of them is gone
        by then (docs/hudi.md).
        """
        deadline = self.clock.monotonic() + _UNTIL_A_GAP.total_seconds()
        while True:
            late = self.clock.monotonic() >= deadline
            if not self.writers_may_read_plans():
                with self.client.locked():  # no write begins while it is held
                    if not self.writers_may_read_plans():
                        self.reach(Point.WITHDRAWING)
                        return (by or self.client.remove_plan)(plan)
            if late:
                return False
            time.sleep(0.05)

    def writers_may_read_plans(self) -> bool:
        """Whether a write in flight may still read the plans that it has found on the timeline."""
        try:
            view = self.view()
        except TemporaryError:  # a file is being written
            return True
        return any(may_read(write, view.observed_at) for write in view.writers.in_flight)

    def files_if_asked(self, files_to_delete: int | None) -> int | None:
        """Return how many data files the table has, if the run was asked to count them. The count may stop once the
        deletion is within its share, so a small deletion from a large table costs no long count.
        """
        share = self.assignment.largest_share
        if share is None:
            return None
        with translated(Step.PLAN):
            return self.client.count_data_files(beyond=(files_to_delete or 0) * 100 / share if share else math.inf)


@contextlib.contextmanager
def open_table(
    session: Any, assignment: Assignment, storage: Storage, *, service: Mapping[str, str], clock: Clock
) -> Iterator[OpenTable]:
    """Open the table of a run with the service's own `hoodie.*` settings, and close it in any case.

    Raises PermanentError if a table of another format lies in its folder. The message for a lock that is not released
    names the lock. Hudi's own message does not.
    """
    options = HudiTableOptions.model_validate(dict(assignment.table_options))
    require_own_folder(assignment.format, [assignment.location], storage)
    indexes = _index_switches(assignment, options, storage)
    with translated(Step.PLAN):
        client = HudiClient(session, assignment.location, options, service, indexes=indexes)
    try:
        table = OpenTable(client=client, assignment=assignment, options=options, storage=storage, clock=clock)
        table.stand_still_while_times_repeat()
        yield table
    except LockHeldError as error:
        lock = "the table's own lock file" if options.lock is None else str(options.lock)
        raise TemporaryError(f"{error} ({lock})", delay=error.delay) from error
    finally:
        with on_the_way_out("let go"):
            client.close()


def _index_switches(assignment: Assignment, options: HudiTableOptions, storage: Storage) -> Mapping[str, str]:
    """Return the switches of the table's indexes as it has them now. Raises TemporaryError if a commit of ours would
    leave them wrong, or the table's properties broke off: the next observation of the table says so, too.
    """
    properties = read_table_properties(assignment.location, storage)
    if properties.damage:
        raise TemporaryError(broken_off(properties.damage).reason)
    indexes = read_indexes(assignment.location, properties, storage)
    wrong = index_blocker(indexes, properties, conf=options.conf)
    if wrong is not None and wrong.concerns(assignment.service):
        raise TemporaryError(f"{wrong.reason}: {wrong.remedy}")
    beside = assignment.service in (Service.INDEXING, Service.METADATA_VALIDATION)
    instant = None if beside else indexing_under_way(properties, storage)
    if instant is not None:
        raise TemporaryError(f"an index is being built (indexing {instant}): nothing is committed beside it")
    return switches(indexes)


class ProgramSteps(Generic[_Options]):
    """The three steps on an open table. Of most services nothing can be done without a commit."""

    def __init__(self, table: OpenTable, options: _Options) -> None:
        self._table = table
        self._options = options

    def execute(self, plan: Plan) -> None:
        """Do nothing: the execution is joined with the commit."""


def program(
    steps: Callable[[OpenTable, _Options], Steps],
    options: type[_Options],
    *,
    settings: Callable[[_Options, Assignment], Mapping[str, str]] = lambda _options, _assignment: {},
) -> Callable[..., Program]:
    """Return the program that takes these steps on an open table, with the service's own `hoodie.*` settings."""

    @contextlib.contextmanager
    def opened(session: Any, assignment: Assignment, storage: Storage, clock: Clock) -> Iterator[Steps]:
        given = options.model_validate(dict(assignment.service_options))
        with open_table(session, assignment, storage, service=settings(given, assignment), clock=clock) as table:
            yield steps(table, given)

    return partial(Bracket, opened=opened)
