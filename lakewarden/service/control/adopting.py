"""Adopting: the phases of the tables that are taken over go on by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.proof import Check
from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.model.rows import AdoptionPhase, AdoptionRow
from lakewarden.service.model.run import RunState
from lakewarden.service.ownership.ownership import Ownership
from lakewarden.service.rules.adoption import AdoptionTerms, closed_waves, next_row
from lakewarden.service.rules.proof import in_words, missing
from lakewarden.service.scheduling.scheduling import SchedulingParts
from lakewarden.service.state.daemon_state import DaemonState

log = structlog.get_logger(__name__)

EVERY_SECONDS = 2.0


class Adopting:
    """Takes the tables of this replica from one phase to the next. Only the control thread calls it."""

    def __init__(
        self,
        *,
        state: DaemonState,
        ownership: Ownership,
        scheduling: SchedulingParts,
        clock: Clock,
        terms: AdoptionTerms,
    ) -> None:
        self._adoptions = state.adoptions
        self._tables = state.tables
        self._observations = state.observations
        self._service_states = state.service_states
        self._shares = ownership.shares
        self._active_runs = state.active_runs
        self._runs = scheduling.runs
        self._poller = scheduling.poller
        self._table_proofs = scheduling.table_proofs
        self._clock = clock
        self._terms = terms
        self._due_at = float("-inf")

    def keep_up(self, now: float) -> None:
        """Do what is due. If the store does not answer, it is done a little later."""
        if now < self._due_at:
            return
        self._due_at = now + EVERY_SECONDS
        try:
            rows = self._adoptions.rows()
            closed = closed_waves(rows, now=self._clock.now(), terms=self._terms)
            for row in rows:
                table = self._tables.get(row.table)
                if table is not None and row.phase is not AdoptionPhase.LEFT and self._shares.owns(row.table):
                    self._try_to_go_on(table, row, closed[row])
            self._cancel_what_has_not_begun({row.table: row for row in rows if row.phase is AdoptionPhase.LEFT})
        except TemporaryError as error:
            log.warning("store_unavailable", error=str(error))

    def _cancel_what_has_not_begun(self, left: Mapping[TableId, AdoptionRow]) -> None:
        """Cancel the runs that wait in the queue for tables that were given back. A table would be served as before
        until the last of them has ended, for hours in a large fleet.
        """
        for run in self._active_runs.all():
            row = left.get(run.table)
            if row is not None and run.state is RunState.QUEUED and self._shares.owns(run.table):
                self._runs.cancel(run, by=row.asked_by)

    def _try_to_go_on(self, table: Table, row: AdoptionRow, closed: str | None) -> None:
        try:
            self._go_on(table, row, closed)
        except LakewardenError:
            raise  # the store
        except Exception:  # the failure of one table must not end the daemon
            log.exception("adoption_not_kept_up", table=table.id)

    def _go_on(self, table: Table, row: AdoptionRow, closed: str | None) -> None:
        now = self._clock.now()
        row = self._with_setback(row)
        lacking = None
        if row.phase in (AdoptionPhase.PROVING, AdoptionPhase.PLANNING):
            lacking = self._lacking(table, row)
        following = next_row(row, closed=closed, lacking=lacking, now=now, terms=self._terms)
        if following.phase is not row.phase:
            log.info("adoption", table=row.table, phase=following.phase, wave=row.wave)
        self._adoptions.keep(following)

    def _lacking(self, table: Table, row: AdoptionRow) -> str | None:
        """Return what is not proved of a table. None if nothing is.

        What was proved is not lost by a start of the daemon: until the table is observed and the workers are up, a
        table that is planned stays so.
        """
        observation = self._observations.kept(table.id)
        view = None if observation is None else observation.view
        failure = self._poller.failure(table.id)
        lacking = missing(self._table_proofs.of(table, view, failure), table)
        if row.phase is AdoptionPhase.PLANNING:
            if view is None and failure is None:
                return None
            lacking = tuple(one for one in lacking if one.check is not Check.WORKERS)
        return in_words(lacking) or None

    def _with_setback(self, row: AdoptionRow) -> AdoptionRow:
        """Return a row with the last setback since the table is acted on."""
        if row.phase is not AdoptionPhase.ACTING:
            return row
        failures = [
            one.failure
            for one in self._poller.writer_failures(row.table)
            if one.run is not None and one.failure.at >= row.since
        ]
        if failures:
            newest = max(failures, key=lambda one: one.at)
            if row.setback_at is None or newest.at > row.setback_at:
                row = replace(row, setback=f"write {newest.instant} failed: {newest.reason}", setback_at=newest.at)
        quarantined = self._service_states.quarantined(row.table)
        if quarantined is None:
            return row
        minute = self._clock.now().replace(second=0, microsecond=0)
        return replace(row, setback=quarantined, setback_at=minute)
