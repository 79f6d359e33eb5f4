"""The store without a database: for tests of the code above it. It ends with its process."""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from lakewarden.planners.model.clock import Clock, SystemClock
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.step import Step
from lakewarden.planners.model.table import TableId
from lakewarden.planners.model.view import location_of
from lakewarden.service.model.access import KeyRow
from lakewarden.service.model.acts import Act
from lakewarden.service.model.configuring.registration import RegistrationRow
from lakewarden.service.model.replica import Replica, ReplicaId
from lakewarden.service.model.rows import (
    AdoptionRow,
    ApprovalRow,
    DecisionRow,
    FolderRow,
    LockProofRow,
    RewriteRow,
    ServiceStateRow,
    WriterSignsRow,
)
from lakewarden.service.model.run import ExecutorNames, Run, RunState
from lakewarden.service.store.memory_answers import MemoryAnswers
from lakewarden.service.store.memory_history import MemoryHistory
from lakewarden.service.store.memory_notices import MemoryNotices
from lakewarden.service.store.port import UNSEEN_AT_LEAST, SupersededError
from lakewarden.service.store.sharing import shared_out


@dataclass(frozen=True, kw_only=True, slots=True)
class _Member:
    """A replica, and until when its lease runs on the monotonic clock. Without a lease it runs for ever."""

    replica: Replica
    joined_at: datetime
    until: float


class MemoryStore(MemoryAnswers, MemoryNotices, MemoryHistory):
    """Implements the contract of the store with dictionaries. The clock of the database is the given clock."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__()
        self._clock = clock or SystemClock()
        self._identity = uuid.uuid4().hex
        self._members: dict[ReplicaId, _Member] = {}
        self._shares: dict[str, ReplicaId] = {}
        self._dirty: set[str] = set()
        self._service_states: dict[tuple[TableId, Service], ServiceStateRow] = {}
        self._lock_proofs: dict[TableId, LockProofRow] = {}
        self._epochs: dict[tuple[str, Service], int] = {}
        self._claimed_at: dict[tuple[str, Service], datetime] = {}
        self._seen: dict[TableId, datetime] = {}
        self._pauses: dict[TableId | None, str] = {}
        self._approvals: dict[tuple[TableId, Service], ApprovalRow] = {}
        self._api_keys: dict[str, KeyRow] = {}
        self._acts: list[Act] = []
        self._last_act = 0
        self._registrations: dict[TableId, RegistrationRow] = {}
        self._writer_signs: dict[TableId, WriterSignsRow] = {}
        self._folders: dict[TableId, FolderRow] = {}
        self._adoptions: dict[TableId, AdoptionRow] = {}
        self._rewrites: dict[tuple[TableId, Service], RewriteRow] = {}

    def identity(self) -> str:
        """Return the identity of this store."""
        return self._identity

    @property
    def write_error(self) -> str | None:
        """It can always be written."""
        return None

    def check_writable(self) -> None:
        """Do nothing, because it can always be written."""

    def join(self, replica: Replica, *, lease: timedelta | None) -> None:
        """Join as a replica until the lease ends. Without a lease, every other replica has ended."""
        with self._lock:
            if lease is None:
                for other in self._members.keys() - {replica.id}:
                    self._end(other)
            until = math.inf if lease is None else self._clock.monotonic() + lease.total_seconds()
            self._members.setdefault(replica.id, _Member(replica=replica, joined_at=self._clock.now(), until=until))

    def renew(self, replica: ReplicaId, *, lease: timedelta) -> bool:
        """Extend a lease that has not ended."""
        with self._lock:
            if not self._alive(replica):
                return False
            member = self._members[replica]
            if member.until != math.inf:
                self._members[replica] = replace(member, until=self._clock.monotonic() + lease.total_seconds())
            return True

    def leave(self, replica: ReplicaId) -> None:
        """End the lease and give the shares back."""
        with self._lock:
            self._end(replica)
            self._shares = {location: holder for location, holder in self._shares.items() if holder != replica}

    def replicas(self) -> Sequence[Replica]:
        """Return all replicas, also the dead ones, in the order in which they joined."""
        with self._lock:
            return [
                replace(
                    member.replica, alive=self._alive(of), lapses_in=self._lapses_in(of) if self._alive(of) else None
                )
                for of, member in self._members.items()
            ]

    def share(self, replica: ReplicaId, *, locations: Collection[str], busy: Collection[str]) -> frozenset[str]:
        """Take the fair share of `locations` for a living replica, and return its whole share."""
        with self._lock:
            living = {other for other in self._members if self._alive(other)}
            if replica not in living:
                return frozenset()
            held = {location: holder for location, holder in self._shares.items() if holder in living}
            mine = shared_out(replica, living=living, held=held, locations=locations, busy=busy)
            others = {location: holder for location, holder in held.items() if holder != replica}
            self._shares = {**others, **dict.fromkeys(mine, replica)}
            return mine

    def shares(self) -> Mapping[str, ReplicaId]:
        """Return the shares of the living replicas."""
        with self._lock:
            return {location: holder for location, holder in self._shares.items() if self._alive(holder)}

    def mark_dirty(self, locations: Collection[str]) -> None:
        """Note that these tables have changed."""
        with self._lock:
            self._dirty.update(locations)

    def take_dirty(self, replica: ReplicaId) -> frozenset[str]:
        """Return the tables of the replica that were marked dirty, and clear the marks."""
        with self._lock:
            if not self._alive(replica):
                return frozenset()
            mine = frozenset(location for location in self._dirty if self._shares.get(location) == replica)
            self._dirty -= mine
            return mine

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the active one of the same (identity, service)."""
        with self._lock:
            for other in self._runs.values():
                if other.ended_at is None and (other.identity, other.service) == (run.identity, run.service):
                    return other
            self._runs[run.id] = run
            return run

    def take_lease(self, run: RunId, *, owner: ReplicaId, at: datetime) -> Run:
        """Take the lease with a higher epoch. The run is RUNNING."""
        with self._lock:
            row = self._one(run)
            self._check_owns(owner, row)
            for other in self._runs.values():
                if other.identity == row.identity and other.ended_at is None and other.owner not in (None, owner):
                    raise SupersededError(f"run {other.id} on the same table belongs to replica {other.owner}")
            if row.state is not RunState.QUEUED:
                raise SupersededError(f"run {run} is {row.state}, not QUEUED")
            epoch = self._raise_epoch(row, at=at)
            return self._change(row, state=RunState.RUNNING, owner=owner, epoch=epoch, started_at=at)

    def adopt(self, run: RunId, *, owner: ReplicaId) -> Run:
        """Take over a run that a dead owner began, with a higher epoch. The run is UNKNOWN."""
        with self._lock:
            row = self._one(run)
            if row.owner is not None and self._alive(row.owner):
                raise SupersededError(f"the lease of replica {row.owner} still runs")
            self._check_owns(owner, row)
            if row.state.ended or row.state is RunState.QUEUED:
                raise SupersededError(f"run {run} is {row.state}: there is nothing to take over")
            return self._change(
                row, state=RunState.UNKNOWN, owner=owner, epoch=self._raise_epoch(row, at=self._clock.now())
            )

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
        """Store the progress of a run."""
        known = None if figures is None else dict(figures)
        news: dict[str, Any] = {"state": state, "step": step, "instant": instant, "figures": known}
        news |= {"executor": executor, "application": application}
        with self._lock:
            row = self._owned(run, epoch)
            return self._change(row, **{key: value for key, value in news.items() if value is not None})

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
        """End a run."""
        with self._lock:
            row = self._owned(run, epoch)
            return self._change(row, state=state, outcome=outcome, ended_at=at, figures=dict(figures or {}))

    def epoch(self, *, identity: str, service: Service) -> int:
        """Return the newest epoch of a lease, or 0 if it was never taken."""
        return self._epochs.get((identity, service), 0)

    def run(self, run: RunId) -> Run | None:
        """Return one run."""
        return self._runs.get(run)

    def runs(
        self,
        *,
        table: TableId | None = None,
        service: Service | None = None,
        states: Collection[RunState] = (),
        before: RunId | None = None,
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first."""
        order = list(reversed(self._runs))
        if before is not None:
            order = order[order.index(before) + 1 :] if before in self._runs else []
        found = [
            run
            for run in map(self._runs.__getitem__, order)
            if (table is None or run.table == table)
            and (service is None or run.service is service)
            and (not states or run.state in states)
        ]
        return found[:limit]

    def active(self) -> Sequence[Run]:
        """Return every run that has not ended, the oldest first."""
        return [run for run in self._runs.values() if run.ended_at is None]

    def instants(self, *, identity: str, service: Service) -> frozenset[str]:
        """Return the instants that runs of ours planned or took up."""
        return frozenset(
            run.instant
            for run in self._runs.values()
            if run.instant is not None and (run.identity, run.service) == (identity, service)
        )

    def executors(self, *, identity: str, service: Service, instant: str) -> ExecutorNames:
        """Return what carried out the newest run of an instant, as far as it is known."""
        for run in reversed(self._runs.values()):
            about = (run.identity, run.service, run.instant) == (identity, service, instant)
            if about and (run.executor is not None or run.step is not None):
                return run.executors
        return ExecutorNames(executor=None)

    def keep_service_state(self, row: ServiceStateRow) -> None:
        """Keep the state of a service, and replace the previous one."""
        self._service_states[row.table, row.service] = row

    def forget_service_state(self, table: TableId, service: Service) -> None:
        """Drop the state of a service."""
        self._service_states.pop((table, service), None)

    def service_states(self) -> Sequence[ServiceStateRow]:
        """Return the state of every service."""
        return [*self._service_states.values()]

    def keep_lock_proof(self, row: LockProofRow) -> None:
        """Keep the evidence about the lock of a table, and replace the previous one."""
        self._lock_proofs[row.table] = row

    def lock_proofs(self) -> Sequence[LockProofRow]:
        """Return the evidence about the locks of all tables."""
        return [*self._lock_proofs.values()]

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        return [row for (of, _), row in sorted(self._decisions.items()) if of == table]

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or all tables if `table` is None."""
        self._pauses[table] = reason

    def resume(self, table: TableId | None) -> None:
        """End a pause."""
        self._pauses.pop(table, None)

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason."""
        return dict(self._pauses)

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a request for approval, or the approval."""
        self._approvals[row.table, row.service] = row

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Delete a request for approval and the approval."""
        self._approvals.pop((table, service), None)

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every request for approval."""
        return [*self._approvals.values()]

    def keep_api_key(self, row: KeyRow) -> None:
        """Add an API key."""
        self._api_keys[row.id] = row

    def revoke_api_key(self, key: str, *, at: datetime) -> bool:
        """Revoke an API key."""
        row = self._api_keys.get(key)
        if row is None or row.revoked_at is not None:
            return False
        self._api_keys[key] = replace(row, revoked_at=at)
        return True

    def api_keys(self) -> Sequence[KeyRow]:
        """Return every API key."""
        return sorted(self._api_keys.values(), key=lambda row: (row.created_at, row.id))

    def keep_registration(self, row: RegistrationRow, *, act: Act) -> bool:
        """Keep a registration with its act."""
        with self._lock:
            if max((one.number for one in self._registrations.values()), default=0) != row.number - 1:
                return False
            self._registrations[row.table] = row
        self.note_act(act)
        return True

    def registrations(self, *, after: int = 0) -> Sequence[RegistrationRow]:
        """Return the registrations that were changed later."""
        later = (row for row in [*self._registrations.values()] if row.number > after)
        return sorted(later, key=lambda row: row.number)

    def note_act(self, act: Act) -> None:
        """Add an act to the audit log."""
        with self._lock:
            self._last_act += 1
            self._acts.append(replace(act, number=self._last_act))

    def acts(self, *, table: TableId | None = None, before: int | None = None, limit: int = 100) -> Sequence[Act]:
        """Return acts, the newest first."""
        found = [
            act
            for act in reversed(self._acts)
            if (table is None or act.table == table) and (before is None or act.number < before)
        ]
        return found[:limit]

    def forget_acts(self, *, before: datetime, most: int) -> int:
        """Delete up to `most` old acts."""
        old = {act.number for act in [act for act in self._acts if act.at < before][:most]}
        self._acts = [act for act in self._acts if act.number not in old]
        return len(old)

    def keep_writer_signs(self, row: WriterSignsRow) -> None:
        """Keep the signs of the writers of a table."""
        self._writer_signs[row.table] = row

    def writer_signs(self) -> Sequence[WriterSignsRow]:
        """Return the signs of the writers of all tables."""
        return [*self._writer_signs.values()]

    def keep_folder(self, row: FolderRow) -> None:
        """Keep the folder of a table in a catalog."""
        self._folders[row.table] = row

    def folders(self, *, folder: str | None = None) -> Sequence[FolderRow]:
        """Return the folders of all tables in catalogs, or the tables in one folder."""
        return [row for row in self._folders.values() if folder in (None, row.folder)]

    def keep_adoption(self, row: AdoptionRow) -> None:
        """Keep the adoption of a table."""
        self._adoptions[row.table] = row

    def adoptions(self) -> Sequence[AdoptionRow]:
        """Return the adoptions of all tables."""
        return [*self._adoptions.values()]

    def keep_rewrite(self, row: RewriteRow) -> None:
        """Keep a rewrite of all files."""
        self._rewrites[row.table, row.service] = row

    def forget_rewrite(self, table: TableId, service: Service) -> None:
        """Delete a rewrite of all files."""
        self._rewrites.pop((table, service), None)

    def rewrites(self) -> Sequence[RewriteRow]:
        """Return every rewrite of all files."""
        return [*self._rewrites.values()]

    def forget(self, *, registered: Mapping[TableId, str], at: datetime, keep: timedelta) -> Iterator[int]:
        """Delete what is older than `keep`, in one step."""
        before, unseen = at - keep, at - max(keep, UNSEEN_AT_LEAST)
        with self._lock:
            if self._seen and max(self._seen.values()) < at - UNSEEN_AT_LEAST:
                self._seen = dict.fromkeys(self._seen, at)
            self._seen = {**{table: at for table, _ in self._decisions}, **self._seen, **dict.fromkeys(registered, at)}
            gone = {table for table, seen_at in self._seen.items() if seen_at < unseen}
            last = {(run.table, run.service): run.id for run in self._runs.values()}
            old = [
                run.id
                for run in self._runs.values()
                if run.ended_at is not None
                and run.ended_at < before
                and (last[run.table, run.service] != run.id or run.table in gone)
            ]
            for run_id in old:
                del self._runs[run_id]
            self._forget_tables(gone - {run.table for run in self._runs.values()})
            self._dirty &= {*registered.values()}
            held = {(run.identity, run.service) for run in self._runs.values()}
            for key, claimed_at in [*self._claimed_at.items()]:
                if claimed_at < unseen and key not in held:
                    del self._claimed_at[key], self._epochs[key]
            self._forget_replicas(before)
        yield len(old)

    def _forget_tables(self, gone: Collection[TableId]) -> None:
        for table in gone:
            del self._seen[table]
            self._lock_proofs.pop(table, None)
            self._writer_signs.pop(table, None)
            self._folders.pop(table, None)
            self._adoptions.pop(table, None)
        self._forget_history(gone)
        self.forget_notices([row for row in self.notices() if row.table in gone])
        for notes in (self._decisions, self._service_states, self._approvals, self._rewrites):
            for key in [key for key in notes if key[0] in gone]:
                del notes[key]

    def _forget_replicas(self, before: datetime) -> None:
        owners = {run.owner for run in self._runs.values() if run.ended_at is None}
        for replica, member in [*self._members.items()]:
            if member.joined_at < before and not self._alive(replica) and replica not in owners:
                del self._members[replica]

    def close(self) -> None:
        """Do nothing, because there is nothing to release."""

    def _alive(self, replica: ReplicaId) -> bool:
        member = self._members.get(replica)
        return member is not None and self._clock.monotonic() < member.until

    def _lapses_in(self, replica: ReplicaId) -> timedelta | None:
        until = self._members[replica].until
        return timedelta(seconds=until - self._clock.monotonic()) if math.isfinite(until) else None

    def _end(self, replica: ReplicaId) -> None:
        if replica in self._members:
            self._members[replica] = replace(self._members[replica], until=-math.inf)

    def _check_owns(self, replica: ReplicaId, run: Run) -> None:
        location = location_of(run.identity)
        if self._shares.get(location) != replica:
            raise SupersededError(f"replica {replica} has not the share of {location}")
        if not self._alive(replica):
            raise SupersededError(f"the lease of replica {replica} has ended")

    def _raise_epoch(self, run: Run, *, at: datetime) -> int:
        key = (run.identity, run.service)
        self._claimed_at[key] = at
        self._epochs[key] = self._epochs.get(key, 0) + 1
        return self._epochs[key]

    def _one(self, run: RunId) -> Run:
        if run not in self._runs:
            raise SupersededError(f"there is no run {run} in the store")
        return self._runs[run]

    def _owned(self, run: RunId, epoch: int) -> Run:
        row = self._one(run)
        newest = self._epochs.get((row.identity, row.service), 0)
        if row.state.ended:
            raise SupersededError(f"run {run} has ended: {row.state}")
        if epoch != row.epoch or (row.epoch and row.epoch != newest):
            raise SupersededError(f"run {run} has epoch {epoch}, its lease is at {newest}")
        return row

    def _change(self, row: Run, **news: Any) -> Run:
        changed = replace(row, **news)
        self._runs[row.id] = changed
        return changed
