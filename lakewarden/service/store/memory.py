"""The store without a database: for tests of what stands above it. It forgets everything when it is gone."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakewarden.executors.contract import Step
from lakewarden.planners.model.instant import RunId, Service
from lakewarden.planners.model.table import TableId
from lakewarden.service.store.port import ApprovalRow, DecisionRow, Run, RunState, SupersededError


class MemoryStore:
    """Implements the store's contract with dictionaries."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[RunId, Run] = {}
        self._epochs: dict[tuple[str, Service], int] = {}
        self._decisions: dict[tuple[TableId, Service], DecisionRow] = {}
        self._pauses: dict[TableId | None, str] = {}
        self._approvals: dict[tuple[TableId, Service], ApprovalRow] = {}

    def request(self, run: Run) -> Run:
        """Add a QUEUED run, or return the active one of the same (identity, service)."""
        with self._lock:
            for other in self._runs.values():
                if other.ended_at is None and (other.identity, other.service) == (run.identity, run.service):
                    return other
            self._runs[run.id] = run
            return run

    def claim(self, run: RunId, *, owner: str, at: datetime) -> Run:
        """Take the lease with a higher epoch; the run is RUNNING."""
        with self._lock:
            row = self._one(run)
            if row.state is not RunState.QUEUED:
                raise SupersededError(f"run {run} is {row.state}, not QUEUED")
            key = (row.identity, row.service)
            self._epochs[key] = self._epochs.get(key, 0) + 1
            return self._change(row, state=RunState.RUNNING, epoch=self._epochs[key], started_at=at)

    def progress(
        self,
        run: RunId,
        *,
        epoch: int,
        state: RunState | None = None,
        step: Step | None = None,
        instant: str | None = None,
    ) -> Run:
        """Note how far a run has come."""
        news = {"state": state, "step": step, "instant": instant}
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
        """Return the newest epoch of a lease; 0 if it was never claimed."""
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
        limit: int = 100,
    ) -> Sequence[Run]:
        """Return runs, the newest first."""
        found = [
            run
            for run in reversed(self._runs.values())
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

    def decided(self, rows: Sequence[DecisionRow]) -> None:
        """Keep decisions, each in place of the one before."""
        self._decisions.update({(row.table, row.service): row for row in rows})

    def decisions(self, table: TableId) -> Sequence[DecisionRow]:
        """Return the last decision of each service of a table."""
        return [row for (of, _), row in sorted(self._decisions.items()) if of == table]

    def pause(self, table: TableId | None, *, reason: str, at: datetime) -> None:
        """Pause a table, or everything where `table` is None."""
        self._pauses[table] = reason

    def resume(self, table: TableId | None) -> None:
        """End a pause."""
        self._pauses.pop(table, None)

    def pauses(self) -> Mapping[TableId | None, str]:
        """Return the pauses in force, each with its reason."""
        return dict(self._pauses)

    def keep_approval(self, row: ApprovalRow) -> None:
        """Keep a question for approval, or its answer."""
        self._approvals[row.table, row.service] = row

    def forget_approval(self, table: TableId, service: Service) -> None:
        """Drop what was asked and approved."""
        self._approvals.pop((table, service), None)

    def approvals(self) -> Sequence[ApprovalRow]:
        """Return every question for approval."""
        return [*self._approvals.values()]

    def forget(self, *, before: datetime) -> int:
        """Delete ended runs that ended before a time, keeping each service's last one."""
        with self._lock:
            last = {(run.identity, run.service): run.id for run in self._runs.values()}
            old = [
                run.id
                for run in self._runs.values()
                if run.ended_at is not None and run.ended_at < before and last[run.identity, run.service] != run.id
            ]
            for run_id in old:
                del self._runs[run_id]
            return len(old)

    def close(self) -> None:
        """Nothing to release."""

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
