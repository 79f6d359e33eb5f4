"""The services of the fake format. They compact and clean a table of JSON files without Spark."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lakewarden.executors.contract import Assignment, FormatPrograms, Plan, Steps
from lakewarden.executors.programs.bracket import undertaken
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import Storage
from tests.support.doubles.fake.options import FakeArchiveOptions, FakeCleanOptions
from tests.support.doubles.fake.table import FakeTable


class FakeCompaction:
    """Compaction. Its steps plan, execute and commit are separate, as in Hudi."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table. An abort only removes the heartbeat of the plan."""
        with undertaken(_CompactionSteps(FakeTable(Path(assignment.location), clock=self._clock), assignment)) as steps:
            yield steps


class FakeClean:
    """Clean. Its steps execute and commit are joined, as in Hudi."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table."""
        yield _CleanSteps(FakeTable(Path(assignment.location), clock=self._clock), assignment)


class FakeClustering:
    """Clustering. Its steps are joined, and a run that stops withdraws its plan, as in Hudi."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table. An abort withdraws the plan."""
        with undertaken(_ClusteringSteps(FakeTable(Path(assignment.location), clock=self._clock), assignment)) as steps:
            yield steps


class FakeArchive:
    """Archive. Its steps are joined, and it is not on the timeline, as in Hudi."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the table."""
        yield _ArchiveSteps(FakeTable(Path(assignment.location), clock=self._clock), assignment)


LOG_FILE_BYTES = 64 * 2**20
"""The size that a plan assumes for each log file, in bytes."""


class _CompactionSteps:
    def __init__(self, table: FakeTable, assignment: Assignment) -> None:
        self._table = table
        self._assignment = assignment
        self._executing: str | None = None

    def plan(self) -> Plan | None:
        instant = self._assignment.instant or self._table.plan_compaction(run=self._assignment.run)
        return None if instant is None else Plan(instant=instant, bytes=self._table.log_files * LOG_FILE_BYTES)

    def execute(self, plan: Plan) -> None:
        self._table.start(plan.on_timeline)
        self._executing = plan.on_timeline

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        merged = self._table.log_files
        self._table.complete(plan.on_timeline)
        return {"log_files_merged": merged - self._table.log_files}

    def abort(self) -> None:
        if self._executing is not None:
            self._table.fall_silent(self._executing)


class _CleanSteps:
    def __init__(self, table: FakeTable, assignment: Assignment) -> None:
        self._table = table
        self._assignment = assignment
        self._retained = FakeCleanOptions.model_validate(dict(assignment.service_options)).versions_retained

    def plan(self) -> Plan | None:
        instant = self._assignment.instant
        if instant is None:
            instant = self._table.plan_clean(run=self._assignment.run, versions_retained=self._retained)
        if instant is None:
            return None
        return Plan(
            instant=instant,
            files_to_delete=len(self._table.files_named(instant)),
            files_in_table=None
            if self._assignment.largest_share is None
            else self._table.file_versions + self._table.log_files,
        )

    def execute(self, plan: Plan) -> None:
        """Do nothing. A clean cannot be undone, so all its work waits for the permit of the commit."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        versions = self._table.file_versions
        self._table.start(plan.on_timeline)
        self._table.complete(plan.on_timeline)
        return {"files_deleted": versions - self._table.file_versions}


class _ClusteringSteps:
    def __init__(self, table: FakeTable, assignment: Assignment) -> None:
        self._table = table
        self._assignment = assignment
        self._planned: str | None = None

    def plan(self) -> Plan | None:
        self._planned = self._assignment.instant or self._table.plan_clustering(run=self._assignment.run)
        return None if self._planned is None else Plan(instant=self._planned)

    def execute(self, plan: Plan) -> None:
        """Do nothing. This step is joined with the commit."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        self._table.start(plan.on_timeline)
        self._table.complete(plan.on_timeline)
        return {"files_rewritten": 1}

    def abort(self) -> None:
        if self._planned is not None:
            self._table.withdraw(self._planned)


class _ArchiveSteps:
    def __init__(self, table: FakeTable, assignment: Assignment) -> None:
        self._table = table
        self._retained = FakeArchiveOptions.model_validate(dict(assignment.service_options)).instants_retained

    def plan(self) -> Plan | None:
        instants = self._table.archivable(instants_retained=self._retained)
        return Plan(instant=None, instants=len(instants)) if instants else None

    def execute(self, plan: Plan) -> None:
        """Do nothing. This step is joined with the commit."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        instants = self._table.archivable(instants_retained=self._retained)
        self._table.archive(instants)
        return {"instants_archived": len(instants)}


FAKE_PROGRAMS = FormatPrograms(
    programs={
        Service.ARCHIVE: FakeArchive,
        Service.CLEAN: FakeClean,
        Service.CLUSTERING: FakeClustering,
        Service.COMPACTION: FakeCompaction,
    },
)
