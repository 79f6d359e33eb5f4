"""The contract of the store: runs, epochs of leases, decisions, pauses and approvals."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.model.instant import RunId, Service, Step
from lakewarden.planners.model.table import TableId
from lakewarden.service.model.access import Act, KeyRow
from lakewarden.service.model.configuring import RegistrationRow
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.rows import (
    ApprovalRow,
    DecisionRow,
    FolderRow,
    LockProofRow,
    RewriteRow,
    ServiceStateRow,
    WriterSignsRow,
)
from lakewarden.service.model.run import DecisionChange, Run, RunState

# The contract of the history in the store: changes of decisions.


class HistoryStore(Protocol):
    """Keeps what was decided. Raises TemporaryError as the store does."""

    def decided(self, rows: Sequence[DecisionRow], *, changes: Sequence[DecisionRow] = ()) -> None:
        """Keep decisions, and replace the previous ones. Add `changes` to the history, in the same transaction."""
        ...

    def decision_changes(
        self, table: TableId, *, service: Service | None = None, before: int | None = None, limit: int = 100
    ) -> Sequence[DecisionChange]:
        """Return changes of the decisions on a table, the newest first, with numbers below `before` if it is given."""
        ...

    def decisions_at(self, table: TableId, at: datetime) -> Sequence[DecisionChange]:
        """Return the decision of each service that held at a moment."""
        ...

    def forget_decision_changes(self, *, before: datetime, keep: int, after: int, most: int) -> tuple[int | None, int]:
        """Look at `most` changes with numbers above `after`. Delete those that ended before `before`, and those that
        ended and are not among the newest `keep`.

        Return the last number that was looked at, or None at the end, and how many were deleted. A change that holds is
        never deleted.
        """
        ...

    def runs_at(self, table: TableId, at: datetime) -> Sequence[Run]:
        """Return the runs of a table that had been requested at a moment and had not ended, the oldest first."""
        ...


UNSEEN_AT_LEAST = timedelta(days=1)
"""The rows of a table are deleted only after no replica has registered the table for so long."""


class SupersededError(LakewardenError):
    """Another owner has taken the lease since. A result of this owner is too late."""


class Store(HistoryStore, Protocol):
    """Keeps what must survive the daemon. Every method is durable when it returns.

    Raises TemporaryError if the database cannot be reached or written.

    Replicas: every daemon joins under a new id and renews its lease. All its shares and runs depend on this one lease.
    The database judges the lease on its own clock. A share is a table, by its canonical location, that one replica
    owns. Only the replica with the share of a table can take the leases of its runs.
    """

    def identity(self) -> str:
        """Return the identity of this store. It never changes, and all replicas on the store see the same one."""
        ...

    @property
    def write_error(self) -> str | None:
        """Why the last thing that was to be kept could not be written. None if it was. Any thread may ask."""
        ...

    def check_writable(self) -> None:
        """Write something that changes nothing. Raises TemporaryError if the store cannot be written."""
        ...

    def join(self, replica: Replica, *, lease: timedelta | None) -> None:
        """Join as a replica until `lease` from now on the clock of the database. None: until the replica leaves.

        Without a lease the caller has proved that it is the only daemon on the store. Every other replica has ended.
        """
        ...

    def renew(self, replica: ReplicaId, *, lease: timedelta) -> bool:
        """Extend a lease to `lease` from now. Return False if it had ended or never existed. An ended lease stays
        ended.
        """
        ...

    def leave(self, replica: ReplicaId) -> None:
        """End the lease of the replica and give its shares back at once. Only after every JVM of it is gone."""
        ...

    def replicas(self) -> Sequence[Replica]:
        """Return every replica that was not deleted, also the dead ones."""
        ...

    def share(self, replica: ReplicaId, *, locations: Collection[str], busy: Collection[str]) -> frozenset[str]:
        """Take the fair share of `locations` for a living replica, and return its whole share.

        The replica takes tables of dead replicas, and tables without an owner, up to a fair share. The fair share is
        the number of tables divided by the number of living replicas. It gives the rest back, except `busy` tables. A
        dead replica gets nothing and has nothing.
        """
        ...

    def shares(self) -> Mapping[str, ReplicaId]:
        """Return the living replica that has the share of each table, by location."""
        ...

    def mark_dirty(self, locations: Collection[str]) -> None:
        """Note for the owners of these tables that the tables have changed. It is a hint."""
        ...

    def take_dirty(self, replica: ReplicaId) -> frozenset[str]:
        """Return the tables of the replica that were marked dirty, and clear the marks."""
        ...

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the run of the same (identity, service) that has not ended."""
        ...

    def take_lease(self, run: RunId, *, owner: ReplicaId, at: datetime) -> Run:
        """Take the lease of the (identity, service) of the run with a new, higher epoch. The run is RUNNING.

        Raises SupersededError if the run is no longer QUEUED, or if `owner` is dead or does not have the share of its
        table. Raises it, too, if another run on the same identity has another owner and has not ended. That run must be
        adopted and settled first.
        """
        ...

    def adopt(self, run: RunId, *, owner: ReplicaId) -> Run:
        """Take over a run that a dead owner began and that has not ended, with a new, higher epoch. The run is UNKNOWN.

        Raises SupersededError if it has ended or is QUEUED, or if its owner is alive. Raises it, too, if `owner` is
        dead or does not have the share of its table.
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
        application: str | None = None,
        figures: Mapping[str, int | float | str] | None = None,
    ) -> Run:
        """Store the progress of a run. Values that are None stay as they were.

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
        """Return the newest epoch of a lease, or 0 if it was never taken."""
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
        before: RunId | None = None,
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first. No `states` means all. `before` leaves out that run, and all newer ones. If
        there is no such run, none is returned.
        """
        ...

    def active(self) -> Sequence[Run]:
        """Return every run that has not ended, the oldest first."""
        ...

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return the instants that runs of ours planned or took up, the last thousand."""
        ...

    def keep_service_state(self, row: ServiceStateRow) -> None:
        """Keep the state of a service, and replace the previous one."""
        ...

    def forget_service_state(self, table: TableId, service: Service) -> None:
        """Delete the state of a service, if there is one."""
        ...

    def service_states(self) -> Sequence[ServiceStateRow]:
        """Return the state of every service."""
        ...

    def keep_lock_proof(self, row: LockProofRow) -> None:
        """Keep the evidence about the lock of a table, and replace the previous one."""
        ...

    def lock_proofs(self) -> Sequence[LockProofRow]:
        """Return the evidence about the locks of all tables."""
        ...

    def keep_writer_signs(self, row: WriterSignsRow) -> None:
        """Keep the signs of the writers of a table, and replace the previous ones."""
        ...

    def writer_signs(self) -> Sequence[WriterSignsRow]:
        """Return the signs of the writers of all tables."""
        ...

    def keep_folder(self, row: FolderRow) -> None:
        """Keep the folder of a table in a catalog, and replace the previous one."""
        ...

    def folders(self, *, folder: str | None = None) -> Sequence[FolderRow]:
        """Return the folders of all tables in catalogs, or the tables in one folder."""
        ...

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        ...

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or all tables if `table` is None."""
        ...

    def resume(self, table: TableId | None) -> None:
        """End a pause, if there is one."""
        ...

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason. The global pause is under None."""
        ...

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a request for approval, or the approval, and replace the previous one of the same table and service."""
        ...

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Delete a request for approval and the approval, if there are any."""
        ...

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every request for approval, approved or not."""
        ...

    def keep_api_key(self, row: KeyRow) -> None:
        """Add an API key."""
        ...

    def revoke_api_key(self, key: str, *, at: datetime) -> bool:
        """Revoke the API key with this id. Return False if there is none, or if it was revoked before."""
        ...

    def api_keys(self) -> Sequence[KeyRow]:
        """Return every API key, also revoked and expired ones, the oldest first."""
        ...

    def note_act(self, act: Act) -> None:
        """Add an act to the audit log, under the next number."""
        ...

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return acts, the newest first: of a table, and with numbers below `before`, if these are given."""
        ...

    def forget_acts(self, *, before: datetime, most: int) -> int:
        """Delete the oldest acts from before that time, `most` of them at once. Return how many."""
        ...

    def keep_rewrite(self, row: RewriteRow) -> None:
        """Keep a rewrite of all files that was asked for, and replace the previous one of the same table and
        service.
        """
        ...

    def forget_rewrite(self, table: TableId, service: Service) -> None:
        """Delete a rewrite of all files, if there is one."""
        ...

    def rewrites(self) -> Sequence[RewriteRow]:
        """Return every rewrite of all files that was asked for and has not ended."""
        ...

    def keep_registration(self, row: RegistrationRow, *, act: Act) -> bool:
        """Keep the registration of a table with its act in the audit log, both or none. It replaces the previous one.

        Return False, and keep nothing, if the newest change of any registration is not the one before `row.number`.
        """
        ...

    def registrations(self, *, after: int = 0) -> Sequence[RegistrationRow]:
        """Return the registrations with a number above `after`, the oldest first. Removed tables are among them."""
        ...

    def forget(self, *, registered: Mapping[TableId, str], at: datetime, keep: timedelta) -> Iterator[int]:
        """Delete what is older than `keep` at the time `at`, step by step. After each step yield the number of deleted
        runs.

        Each step is a short transaction. So a caller can pause between steps without delaying others, and can stop
        early. Runs are deleted that ended before. The last run of each table and service stays, and so do runs that
        have not ended. `registered` are the tables that the caller knows now, with their locations. If no replica has
        named a table here for `keep`, and at least a day, everything of it is deleted but its pause and the runs that
        have not ended. If no replica has named any table for a day, all tables count as named now.
        """
        ...

    def close(self) -> None:
        """Release the database."""
        ...
