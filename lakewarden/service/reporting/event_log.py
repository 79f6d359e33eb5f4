"""The event log: the events of runs and tables as log lines, each with a stable event name and its facts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, assert_never

import structlog

from lakewarden.executors.contract import Granted, Permit, Plan, Refused, Wait
from lakewarden.executors.pool.listening import LogLine
from lakewarden.planners.model.decision import Blocked, Decision
from lakewarden.planners.model.instant import Service, Step
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.events import Listener, Sampler
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run, RunState
from lakewarden.service.rules.writer_failures import Blamed

log = structlog.get_logger("lakewarden")


MOST_A_MINUTE = 300
"""How many lines a minute report tables that are blocked, or that fail. So a client that pauses and resumes tables
without end cannot fill a disk. `explain` and the metrics show the rest.
"""


class EventLog(Listener):
    """Logs what happens to runs, and what operators have to know about tables."""

    def __init__(self) -> None:
        self._sampler = Sampler(per_minute=MOST_A_MINUTE)

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Log a block, because an operator may have to act."""
        if isinstance(decision, Blocked):
            self._tell(
                log.info, "blocked", table=table.id, service=service, reason=decision.reason, remedy=decision.remedy
            )

    def unblocked(self, table: Table, service: Service, decision: Decision) -> None:
        """Log the end of a block."""
        self._tell(log.info, "unblocked", table=table.id, service=service, reason=decision.reason)

    def requested(self, run: Run) -> None:
        """Log a new run and its reason."""
        log.info("run_requested", **_of(run), reason=run.reason, by=run.requested_by)

    def started(self, run: Run) -> None:
        """Log that a worker began a run."""
        log.info("run_started", **_of(run))

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Log what a run may do, must not do, or waits for."""
        facts = {**_of(run), "step": step, "reason": permit.reason, "waited_seconds": round(waited.total_seconds(), 3)}
        match permit:
            case Granted():
                log.info("permit_granted", **facts)
            case Wait():
                log.info("permit_waits", **facts)
            case Refused():
                log.info("permit_refused", **facts)
            case _:
                assert_never(permit)

    def ended(self, run: Run) -> None:
        """Log how a run ended."""
        facts = {**_of(run), "state": run.state, "outcome": run.outcome, "figures": dict(run.figures)}
        if run.state in (RunState.FAILED, RunState.UNKNOWN):
            log.warning("run_ended", **facts)
        else:
            log.info("run_ended", **facts)

    def joined(self, replica: ReplicaId) -> None:
        """Log the new id of the daemon."""
        log.info("replica_joined", replica=replica)

    def renewal_failed(self, reason: str) -> None:
        """Log that the lease was not renewed."""
        log.warning("lease_not_renewed", reason=reason)

    def lease_lost(self, reason: str) -> None:
        """Log that every worker is killed."""
        log.error("lease_lost", reason=reason)

    def adopted(self, run: Run) -> None:
        """Log that a run was taken over."""
        log.info("run_adopted", **_of(run))

    def poll_failed(self, table: Table, reason: str) -> None:
        """Log that a table cannot be observed."""
        self._tell(log.warning, "poll_failed", table=table.id, reason=reason)

    def warned(self, table: Table, warning: str) -> None:
        """Log a warning about the settings of a table."""
        self._tell(log.warning, "table_warning", table=table.id, warning=warning)

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Log a failure of a writer, and the run of ours that it counts against."""
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
        """Log a deletion and the operator who approved it."""
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
        """Log a line that there may be many of, with the number of lines that were left out before it."""
        withheld = self._sampler.admit(event)
        if withheld is not None:
            tell(event, **facts, **({"withheld": withheld} if withheld else {}))


def _of(run: Run) -> dict[str, Any]:
    return {"run": run.id, "table": run.table, "service": run.service, "instant": run.instant, "epoch": run.epoch}


# The log of a run as text.


def written_out(lines: Sequence[LogLine], *, after: int = 0) -> Iterator[str]:
    """Yield lines as text."""
    last = after
    for line in lines:
        if line.number > last + 1:
            yield f"... {line.number - last - 1} lines were deleted, because the log was too long ..."
        last = line.number
        head = " ".join(part for part in (line.at, (line.level or "").upper(), line.source, line.logger) if part)
        facts = " ".join(f"{name}={json.dumps(value)}" for name, value in line.fields.items())
        yield f"{head}: {line.message.expandtabs(4)}" + (f" {facts}" if facts else "")
