"""The event log: the road's events as log lines, each a stable event name and its facts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import structlog

from lakewarden.executors.contract import Granted, Permit, Plan, Refused, Step, Wait
from lakewarden.planners.model.decision import Blocked, Decision
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.events.listener import Listener
from lakewarden.service.events.sampling import Sampler
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.writer_failures import Blamed

log = structlog.get_logger("lakewarden")


MOST_A_MINUTE = 300
"""So many lines a minute tell of tables that are blocked, or in trouble: a client that pauses and resumes them without
end fills no disk. `explain` and the metrics know the rest."""


class EventLog(Listener):
    """Writes down what happens to runs, and what people have to know of tables."""

    def __init__(self) -> None:
        self._sampler = Sampler(per_minute=MOST_A_MINUTE)

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Write down blocks: they are what somebody may have to act on."""
        if isinstance(decision, Blocked):
            self._tell(
                log.info, "blocked", table=table.id, service=service, reason=decision.reason, remedy=decision.remedy
            )

    def requested(self, run: Run) -> None:
        """Write down a new run and its reason."""
        log.info("run_requested", **_of(run), reason=run.reason, by=run.requested_by)

    def started(self, run: Run) -> None:
        """Write down that a worker took the run up."""
        log.info("run_started", **_of(run))

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Write down what a run may do, must not do, or waits for."""
        words = {Granted: "permit_granted", Wait: "permit_waits", Refused: "permit_refused"}
        log.info(
            words[type(permit)],
            **_of(run),
            step=step,
            reason=permit.reason,
            waited_seconds=round(waited.total_seconds(), 3),
        )

    def ended(self, run: Run) -> None:
        """Write down how a run ended."""
        tell = log.warning if run.state in (RunState.FAILED, RunState.UNKNOWN) else log.info
        tell("run_ended", **_of(run), state=run.state, outcome=run.outcome, figures=dict(run.figures))

    def joined(self, replica: ReplicaId) -> None:
        """Write down who the daemon is from now on."""
        log.info("replica_joined", replica=replica)

    def renewal_failed(self, reason: str) -> None:
        """Write down that the lease was not renewed."""
        log.warning("lease_not_renewed", reason=reason)

    def tenure_lost(self, reason: str) -> None:
        """Write down that every worker is killed."""
        log.error("tenure_lost", reason=reason)

    def adopted(self, run: Run) -> None:
        """Write down whose run was taken over."""
        log.info("run_adopted", **_of(run))

    def trouble(self, table: Table, reason: str) -> None:
        """Write down that a table cannot be observed."""
        self._tell(log.warning, "table_trouble", table=table.id, reason=reason)

    def warned(self, table: Table, warning: str) -> None:
        """Write down a warning about a table's settings."""
        self._tell(log.warning, "table_warning", table=table.id, warning=warning)

    def claimed_by_another(self, table: Table, blocked: Blocked | None) -> None:
        """Write down whose claim holds a table back."""
        if blocked is not None:
            log.warning("claimed_by_another", table=table.id, reason=blocked.reason, remedy=blocked.remedy)

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Write down a writer's failure, and the run of ours that it counts against."""
        failure = blamed.failure
        log.warning(
            "writer_failed",
            table=table.id,
            instant=failure.instant,
            at=failure.at.isoformat(),
            reason=failure.reason,
            near_run=blamed.run,
        )

    def approved(self, table: TableId, service: Service, deletion: Plan, by: str) -> None:
        """Write down who let what be deleted."""
        log.info(
            "deletion_approved",
            table=table,
            service=service,
            by=by,
            instant=deletion.instant,
            files=deletion.files_to_delete,
            partitions=deletion.partitions_to_delete,
        )

    def _tell(self, tell: Callable[..., Any], event: str, **facts: Any) -> None:
        """Write a line of a kind of which there may be many, with the number of those that were left out before it."""
        withheld = self._sampler.admit(event)
        if withheld is not None:
            tell(event, **facts, **({"withheld": withheld} if withheld else {}))


def _of(run: Run) -> dict[str, Any]:
    return {"run": run.id, "table": run.table, "service": run.service, "instant": run.instant, "epoch": run.epoch}
