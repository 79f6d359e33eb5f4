"""What happened on the road, told to whoever wants to know: metrics, logs, the demo. The road knows none of them.

A tenure's events come from its own threads, all others from the control thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from lakewarden.executors.contract import Permit, Plan, Step
from lakewarden.planners.model.decision import Blocked, Decision
from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.model.found import Found
from lakewarden.service.model.replica import ReplicaId
from lakewarden.service.model.run import Run
from lakewarden.service.rules.writer_failures import Blamed


class Listener:
    """Every event, as a method that does nothing: a listener overrides what it cares for, and must not raise."""

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Hear of a decision whose outcome or reason is new."""

    def requested(self, run: Run) -> None:
        """Hear that a run was queued."""

    def started(self, run: Run) -> None:
        """Hear that a worker was given the run."""

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Hear how a run's question was answered, and how long the answer took."""

    def ended(self, run: Run) -> None:
        """Hear that a run ended (or became UNKNOWN)."""

    def trouble(self, table: Table, reason: str) -> None:
        """Hear that a table could not be observed."""

    def discovered(self, source: str, found: Found) -> None:
        """Hear what a source has told."""

    def discovery_failed(self, source: str, reason: str) -> None:
        """Hear that a source could tell nothing."""

    def warned(self, table: Table, warning: str) -> None:
        """Hear what a person should know of a table's settings although nothing is held back by it."""

    def claimed_by_another(self, table: Table, blocked: Blocked | None) -> None:
        """Hear that another daemon's claim of a table was met, and what it blocks; None: it was only for a moment."""

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Hear of a failure of a table's writer that is new."""

    def approved(self, table: TableId, service: Service, deletion: Plan, by: str) -> None:
        """Hear that a person let a deletion beyond the budget through."""

    def joined(self, replica: ReplicaId) -> None:
        """Hear that the daemon has become this replica."""

    def renewed(self) -> None:
        """Hear that the replica's lease was renewed."""

    def renewal_failed(self, reason: str) -> None:
        """Hear that a renewal brought nothing, and is tried again."""

    def tenure_lost(self, reason: str) -> None:
        """Hear that the replica may act on nothing any more."""

    def adopted(self, run: Run) -> None:
        """Hear that a run of a replica that is gone was taken over."""

    def rejected(self, run: Run, reason: str) -> None:
        """Hear that the store refused what was said of a run: somebody else has its lease."""


class Listeners(Listener):
    """Tells several listeners, in order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def decided(self, table: Table, service: Service, decision: Decision) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.decided(table, service, decision)

    def requested(self, run: Run) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.requested(run)

    def started(self, run: Run) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.started(run)

    def permit(self, run: Run, step: Step, permit: Permit, waited: timedelta) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.permit(run, step, permit, waited)

    def ended(self, run: Run) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.ended(run)

    def trouble(self, table: Table, reason: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.trouble(table, reason)

    def discovered(self, source: str, found: Found) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.discovered(source, found)

    def discovery_failed(self, source: str, reason: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.discovery_failed(source, reason)

    def warned(self, table: Table, warning: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.warned(table, warning)

    def claimed_by_another(self, table: Table, blocked: Blocked | None) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.claimed_by_another(table, blocked)

    def writer_failed(self, table: Table, blamed: Blamed) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.writer_failed(table, blamed)

    def approved(self, table: TableId, service: Service, deletion: Plan, by: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.approved(table, service, deletion, by)

    def joined(self, replica: ReplicaId) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.joined(replica)

    def renewed(self) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.renewed()

    def renewal_failed(self, reason: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.renewal_failed(reason)

    def tenure_lost(self, reason: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.tenure_lost(reason)

    def adopted(self, run: Run) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.adopted(run)

    def rejected(self, run: Run, reason: str) -> None:
        """Pass it on."""
        for listener in self._listeners:
            listener.rejected(run, reason)
