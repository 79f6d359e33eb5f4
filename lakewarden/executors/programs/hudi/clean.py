"""Clean: the deletion of file versions that nobody needs any more. Its execution is joined with its commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from lakewarden.executors.contract import Assignment, Plan, Step, Steps
from lakewarden.executors.programs.hudi import config
from lakewarden.executors.programs.hudi.client import HudiClient
from lakewarden.executors.programs.hudi.errors import on_the_way_out, translated
from lakewarden.executors.programs.hudi.look import clean_plan, look
from lakewarden.planners.formats.hudi import guard, heartbeats
from lakewarden.planners.formats.hudi.options import HudiTableOptions
from lakewarden.planners.formats.hudi.service_options import CleanOptions
from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.errors import PermanentError, TemporaryError
from lakewarden.planners.model.instant import Instant, Service, State
from lakewarden.planners.ports import Storage


class Clean:
    """The clean program: fulfils `contract.Program`."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    @contextlib.contextmanager
    def open(self, session: Any, assignment: Assignment, storage: Storage) -> Iterator[Steps]:
        """Open the write client for one run. An abort leaves the plan pending, and deletes nothing."""
        options = HudiTableOptions.model_validate(dict(assignment.table_options))
        service = CleanOptions.model_validate(dict(assignment.service_options))
        with translated(Step.PLAN):
            client = HudiClient(session, assignment.location, options, config.for_clean(service))
        try:
            yield CleanSteps(client, assignment, options, storage, self._clock)
        finally:
            with on_the_way_out("let go"):
                client.close()


class CleanSteps:
    """The three steps, of which the second does nothing."""

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

    def plan(self) -> Plan | None:
        """Take up an unfinished clean, whoever planned it; only without one, plan a new one.

        Hudi executes every pending clean at once, the oldest first, so there is no choice to be made.
        """
        pending = self._pending()
        instant = pending[0].time if pending else None
        if instant is None:
            with translated(Step.PLAN):
                instant = self._client.schedule("CLEAN", extra_metadata={})
        return None if instant is None else clean_plan(self._assignment, instant, self._storage)

    def execute(self, plan: Plan) -> None:
        """Do nothing: a deletion cannot be prepared."""

    def commit(self, plan: Plan) -> Mapping[str, int | float | str]:
        """Delete, after a last look at everything that may need what is to be deleted."""
        self._guard()
        self._choose_what_happens_to_failed_writes()
        with translated(Step.COMMIT):
            metadata = self._client.java.clean(_EXECUTE_ONLY)
            return {"files_deleted": int(metadata.getTotalFilesDeleted()) if metadata is not None else 0}

    def _pending(self) -> Sequence[Instant]:
        now = self._clock.now()
        return look(self._assignment, self._options, self._storage, now=now).timeline.pending(Service.CLEAN)

    def _guard(self) -> None:
        """Raise unless no file of any pending clean is needed by a pending plan or held by a savepoint.

        An overlapping plan that nobody has begun is withdrawn, else whoever cleans next would execute it.
        """
        location = self._assignment.location
        for clean in self._pending():
            overlaps = guard.clean_overlaps(location, self._storage, instant=clean.time)
            if not overlaps:
                continue
            found = f"clean {clean.time} would delete {overlaps[0].file.name}: {overlaps[0].reason}"
            if clean.state is not State.REQUESTED:
                raise PermanentError(f"{found}. It is being executed: stop every cleaner of the table and look at it")
            with translated(Step.PLAN):
                withdrawn = self._client.withdraw(clean.time)
            raise TemporaryError(f"{found}. The plan was {'withdrawn' if withdrawn else 'taken up by somebody else'}")

    def _choose_what_happens_to_failed_writes(self) -> None:
        """Let the clean roll writes back only where one is certainly dead and none is merely without a heartbeat.

        Hudi's clean takes a write without a heartbeat for failed. But that may as well be the live write of a writer
        that is not LAZY, and whose table a person has to look at. The policy NEVER leaves failed writes alone; the
        builder of a multi-writer configuration insists on LAZY, so it is set on what was built.
        """
        now = self._clock.now()
        writes = look(self._assignment, self._options, self._storage, now=now).writers.in_flight
        roll_back = any(_dead(write, now) for write in writes) and all(w.guarded_until for w in writes)
        with translated(Step.PLAN):
            self._client.set_failed_writes_policy("LAZY" if roll_back else "NEVER")


_EXECUTE_ONLY = False


def _dead(write: Instant, now: datetime) -> bool:
    """Whether the write's last heartbeat is older than any writer's."""
    if write.guarded_until is None:
        return False
    return now - (write.guarded_until - heartbeats.WINDOW) > config.WRITER_DEAD_AFTER
