"""The store's contract: runs, leases' epochs, decisions, pauses and approvals."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from lakewarden.executors.contract import Step
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.rows import ApprovalRow, DecisionRow, LockProofRow, StandingRow
from lakewarden.service.model.run import Run, RunState

UNSEEN_AT_LEAST = timedelta(days=1)
"""What is kept of a table is not forgotten before nobody has registered it for so long."""


class SupersededError(LakewardenError):
    """Another owner has taken the lease since: whatever this owner says of the run is too late."""


class Store(Protocol):
    """Keeps what must survive the daemon. Every method is durable when it returns.

    Raises TemporaryError where the database cannot be reached or written.

    Replicas: every daemon joins under a new id and renews its lease; all its shares and runs stand and fall with that
    one lease, which the database judges on its own clock. A share is a table, by its canonical location, that one
    replica attends; only who has the share of a table can claim its runs.
    """

    def identity(self) -> str:
        """Return what this store is, for ever and unlike every other one: the same to every replica on it."""
        ...

    def join(self, replica: Replica, *, lease: timedelta | None) -> None:
        """Be a replica, until `lease` from now on the database's clock; None: until it leaves.

        Without a lease the caller has proved that it is the only daemon on the store: every other replica has ended.
        """
        ...

    def renew(self, replica: ReplicaId, *, lease: timedelta) -> bool:
        """Lengthen a lease to `lease` from now. False: it had ended, or was never there, and is not brought back."""
        ...

    def leave(self, replica: ReplicaId) -> None:
        """End the replica's lease and give its shares back at once. Only after every JVM of it is gone."""
        ...

    def replicas(self) -> Sequence[Replica]:
        """Return every replica that has not been forgotten, the living and the dead."""
        ...

    def share(self, replica: ReplicaId, *, locations: Collection[str], busy: Collection[str]) -> frozenset[str]:
        """Take a living replica's fair share of `locations`, and return all that it has now.

        Tables of dead replicas, and those that nobody has, are taken up to a fair share (of all, by the living); what
        is above it is given back, except `busy` tables. A dead replica is given nothing and has nothing.
        """
        ...

    def shares(self) -> Mapping[str, ReplicaId]:
        """Return which living replica has the share of each table, by location."""
        ...

    def mark_dirty(self, locations: Collection[str]) -> None:
        """Leave word for whoever has the shares of these tables that they have changed: a hint."""
        ...

    def take_dirty(self, replica: ReplicaId) -> frozenset[str]:
        """Return the replica's tables for which word was left, and forget it."""
        ...

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the run of the same (identity, service) that has not ended."""
        ...

    def claim(self, run: RunId, *, owner: ReplicaId, at: datetime) -> Run:
        """Take the lease of the run's (identity, service) with a new, higher epoch; the run is RUNNING.

        Raises SupersededError if the run is no longer QUEUED, if `owner` is dead or has not the share of its table, or
        if another run on the same identity has another owner and has not ended: that one is adopted and settled first.
        """
        ...

    def adopt(self, run: RunId, *, owner: ReplicaId) -> Run:
        """Take over a run that was begun and has not ended from a dead owner, with a new, higher epoch; it is UNKNOWN.

        Raises SupersededError if it has ended or is QUEUED, if its owner is alive, or if `owner` is dead or has not the
        share of its table.
        """
        ...

    def progress(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
        executor: str | None = None,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """Note how far a run has come; what is None stays as it was.

        Raises SupersededError if `epoch` is not the newest of the lease, or the run has ended.
        """
        ...

    def end(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState,
        outcome: str,
        at: datetime,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """End a run. Raises SupersededError as `progress` does."""
        ...

    def epoch(self, *, identity: str, service: Service) -> int:
        """Return the newest epoch of a lease; 0 if it was never claimed."""
        ...

    def run(self, run: RunId) -> Run | None:
        """Return one run."""
        ...

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first. No `states` means all."""
        ...

    def active(self) -> Sequence[Run]:
        """Return every run that has not ended, the oldest first."""
        ...

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return the instants that runs of ours planned or took up, the last thousand."""
        ...

    def executor(self, *, identity: str, service: Service, instant: str) -> str | None:
        """Return the executor of the newest run that was about an instant; None where it is not known."""
        ...

    def keep_standing(self, row: StandingRow) -> None:
        """Keep a standing in place of the one before."""
        ...

    def forget_standing(self, table: TableId, service: Service) -> None:
        """Drop a standing. Nothing happens where there is none."""
        ...

    def standings(self) -> Sequence[StandingRow]:
        """Return every standing."""
        ...

    def keep_lock_proof(self, row: LockProofRow) -> None:
        """Keep what was seen of a table's lock in place of the one before."""
        ...

    def lock_proofs(self) -> Sequence[LockProofRow]:
        """Return what was seen of the locks of all tables."""
        ...

    def decided(self, rows: Sequence[DecisionRow]) -> None:
        """Keep decisions, each in place of the one before."""
        ...

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        ...

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or everything where `table` is None."""
        ...

    def resume(self, table: TableId | None) -> None:
        """End a pause. Nothing happens where there is none."""
        ...

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason; the global one under None."""
        ...

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a question for approval, or its answer, in place of the one before of the same table and service."""
        ...

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Drop what was asked and approved. Nothing happens where there is nothing."""
        ...

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every question for approval, answered or not."""
        ...

    def forget(self, *, registered: Mapping[TableId, str], at: datetime, keep: timedelta) -> Iterator[int]:
        """Forget what is older than `keep` at the time `at`, step by step; yield after each how many runs it took.

        Each step is a short transaction: who pauses between them holds nobody up, and who ends early has lost nothing.
        Runs go that ended before; the last one of each table and service stays, and what has not ended. `registered`
        are the tables that the caller knows now, with their locations. Of a table that no replica has named here for
        `keep`, and a day at least, everything goes but its pause, and what has not ended. Where nobody has named any
        table for a day, all count as named now.
        """
        ...

    def close(self) -> None:
        """Release the database."""
        ...
