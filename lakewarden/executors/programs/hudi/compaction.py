"""Compaction of a merge-on-read table in three calls: schedule, compact, commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from lakewarden.executors.contract import Assignment, Plan, Step, Steps
from lakewarden.executors.programs.hudi import config
from lakewarden.executors.programs.hudi.client import HudiClient
from lakewarden.executors.programs.hudi.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.look import compaction_plan, look
from lakewarden.planners.formats.hudi.options import HudiTableOptions
from lakewarden.planners.formats.hudi.plans import RUN_KEY
from lakewarden.planners.formats.hudi.service_options import CompactionOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.instant import Service
from lakewarden.planners.ports import Storage

_PENDING_PLAN_IS_HARMLESS_FROM = 8
"""Below this table version a compaction that merely waits fails writes that began before it."""


class Compaction:
    """The compaction program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the write client for one run. An abort deletes no data file and leaves the plan pending."""
        options = HudiTableOptions.model_validate(dict(assignment.table_options))
        service = CompactionOptions.model_validate(dict(assignment.service_options))
        with translated(Step.PLAN):
            client = HudiClient(session, assignment.location, options, config.for_compaction(service))
        steps = CompactionSteps(client, assignment, options, storage, self._clock)
        try:
            yield steps
        except Exception:
            steps.abort()
            raise
        finally:
            steps.release()


class CompactionSteps:
    """The three steps, and the two ways out."""

    def __init__(
        self,
        client: HudiClient,
        assignment: Assignment,
        options: HudiTableOptions,
        storage: Storage,
        clock: Clock,
    ) -> None:
        self._client = client
        self._assignment = assignment
        self._options = options
        self._storage = storage
        self._clock = clock
        self._planned: str | None = None  # a plan of ours that was not begun
        self._executing: str | None = None
        self._written: Any = None
        self._statuses: Any = None
        self._file_groups = 0

    def plan(self) -> Plan | None:
        """Schedule a compaction, or take up the pending one that was assigned."""
        instant = self._assignment.instant
        if instant is None:
            with translated(Step.PLAN):
                instant = self._client.schedule("COMPACT", extra_metadata={RUN_KEY: self._assignment.run})
            if instant is None:
                return None
        timeline = look(self._assignment, self._options, self._storage, now=self._clock.now()).timeline
        pending = next((found for found in timeline.pending(Service.COMPACTION) if found.time == instant), None)
        if pending is None:
            raise TemporaryError(f"compaction {instant} is not pending on the timeline")
        self._planned = instant if pending.author is not None else None
        return compaction_plan(pending)

    def execute(self, plan: Plan) -> None:
        """Write the new base files without committing them.

        An earlier attempt at the same instant is rolled back by Hudi first. From 1.1 on `compact` only prepares an
        RDD: counting it is what writes the files, and keeping it is what makes the commit not write them again.
        """
        self._planned, self._executing = None, plan.on_timeline
        with translated(Step.EXECUTE):
            self._written = self._client.java.compact(plan.on_timeline)
            self._statuses = self._written.getWriteStatuses()
            self._client.keep(self._statuses)
            self._file_groups = int(self._statuses.count())

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Complete the instant."""
        with translated(Step.COMMIT):
            self._client.java.commitCompaction(plan.on_timeline, self._written, self._client.none())
        return {"file_groups": self._file_groups}

    def abort(self) -> None:
        """Step back. What was executed stays as it is, for the plan's next owner; only our claim on it ends."""
        with on_the_way_out("step back"):
            if self._executing is not None:
                self._client.stop_heartbeat(self._executing)
            elif self._planned is not None and self._client.table_version < _PENDING_PLAN_IS_HARMLESS_FROM:
                self._client.withdraw(self._planned)

    def release(self) -> None:
        """Free what the run holds in the JVM."""
        with on_the_way_out("let go"):
            if self._statuses is not None:
                self._statuses.unpersist()
            self._client.close()
