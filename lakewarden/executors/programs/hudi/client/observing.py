"""The table's timeline, read without the JVM: the plans of Hudi's client, and the instants in flight beside us."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from lakewarden.executors.contract import Assignment, Plan
from lakewarden.planners.formats.hudi import HUDI
from lakewarden.planners.formats.hudi.format import THOROUGH
from lakewarden.planners.formats.hudi.metadata import plans
from lakewarden.planners.formats.hudi.metadata.heartbeats import with_beats_seen, without_a_beat_seen
from lakewarden.planners.formats.hudi.metadata.names import Action, InstantFile, file_name
from lakewarden.planners.formats.hudi.metadata.payloads import MALFORMED, Chunks, UnreadableError, first, read_chunks
from lakewarden.planners.formats.hudi.metadata.plans import DataFile, merged
from lakewarden.planners.formats.hudi.metadata.table_properties import read_table_properties
from lakewarden.planners.formats.hudi.options.table_options import HudiTableOptions
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.timeline import Timeline
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Observation, Storage

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
    for found in view.timeline.pending(service):
        if found.time == instant:
            return found
    raise TemporaryError(f"{service} {instant} is not pending on the timeline")


def plan_of(instant: Instant) -> Plan:
    """Return a pending rewrite's plan as it is reported to the daemon."""
    size = instant.plan
    return Plan(
        instant=instant.time,
        file_groups=None if size is None else size.file_groups,
        bytes=None if size is None else size.bytes,
    )


def compacted_files(assignment: Assignment, instant: Instant, storage: Storage) -> frozenset[DataFile]:
    """Return the files that a pending compaction or log compaction merges. Raises TemporaryError if its plan is
    unreadable.
    """
    return _files(assignment, instant, storage, plans.compaction_plan)


def clustered_files(assignment: Assignment, instant: Instant, storage: Storage) -> frozenset[DataFile]:
    """Return the files that a pending clustering rewrites. Raises TemporaryError if its plan is unreadable."""
    return _files(assignment, instant, storage, plans.clustering_plan)


def clean_size(assignment: Assignment, instant: str, storage: Storage) -> plans.Cleaned:
    """Return how much a pending clean deletes. Raises TemporaryError if its plan is unreadable."""
    return _requested(assignment, instant, Action.CLEAN, storage, plans.clean_size)


def clean_plan(assignment: Assignment, instant: str, storage: Storage) -> Plan:
    """Return a pending clean's plan as it is reported to the daemon. Raises TemporaryError if it is unreadable."""
    size = clean_size(assignment, instant, storage)
    return Plan(
        instant=instant,
        file_groups=size.file_groups,
        files_to_delete=size.files,
        partitions_to_delete=size.partitions,
    )


def retained_by(assignment: Assignment, clean: str, storage: Storage) -> str | None:
    """Return from which commit on a pending clean leaves everything (`earliestInstantToRetain`). None if it counts
    versions of files, and so does not say it. Raises TemporaryError if its plan is unreadable.
    """
    return _requested(
        assignment, clean, Action.CLEAN, storage, lambda found: plans.retained(first(found, "earliestInstantToRetain"))
    )


def planned_indexes(assignment: Assignment, instant: str, storage: Storage) -> tuple[str, ...]:
    """Return the partitions of the metadata table that a pending indexing builds (`HoodieIndexPlan`). Raises
    TemporaryError if its plan is unreadable.
    """
    return _requested(
        assignment,
        instant,
        Action.INDEXING,
        storage,
        lambda found: tuple(name for chunk in found for name in plans.planned_indexes(chunk)),
    )


def rollback_target(assignment: Assignment, instant: str, storage: Storage) -> plans.RollbackTarget:
    """Return what a rollback undoes, pending or completed. Raises TemporaryError if its plan is unreadable."""
    return _requested(
        assignment,
        instant,
        Action.ROLLBACK,
        storage,
        lambda found: plans.rollback_target(first(found, "instantToRollback")),
    )


def _files(
    assignment: Assignment,
    instant: Instant,
    storage: Storage,
    decode: Callable[[Mapping[str, Any]], plans.HudiPlan | None],
) -> frozenset[DataFile]:
    action = Action(instant.action)
    plan = _requested(assignment, instant.time, action, storage, lambda found: merged(found, decode))
    return frozenset() if plan is None else plan.files


def _requested(
    assignment: Assignment, instant: str, action: Action, storage: Storage, what: Callable[[Chunks], _T]
) -> _T:
    """Return what `what` finds in the plan of an instant."""
    folder = read_table_properties(assignment.location, storage).timeline_folder
    name = file_name(InstantFile(time=instant, action=action, state=State.REQUESTED))
    try:
        return what(read_chunks(storage, f"{folder}/{name}"))
    except (FileNotFoundError, UnreadableError, *MALFORMED) as error:
        raise TemporaryError(f"{name} cannot be read: {error}") from error
