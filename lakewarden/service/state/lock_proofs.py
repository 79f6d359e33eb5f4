"""Lock proofs: for each table, whether its writers were seen to hold the lock that its options name.

The evidence is in the store, because a writer may commit only once a day. So it survives the daemon, and the next owner
of the table has it. `planners/lock_proof.py` judges it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, assert_never

import structlog

from lakewarden.planners.lock_proof import Evidence, ProofState, at_rest, is_live, judged, resumed, summary, unproved
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.proof import LockReading
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.rows import LockProofRow
from lakewarden.service.state.active_runs import ActiveRuns

if TYPE_CHECKING:
    from lakewarden.service.store.sql.store import Store

log = structlog.get_logger(__name__)

CLOSE_POLLS = timedelta(seconds=0.25)
"""How often a table is observed while it has live writers and nothing is proved. If two commits lie between two
observations, less can be learned than from one.
"""

MOST_CLOSELY = 50
"""How many tables are observed so often at the same time. A thousand new tables take turns."""


@dataclass(slots=True)
class _Record:
    """What is known about one table. `busy`: a run of ours was under way when its last observation was judged."""

    identity: str
    evidence: Evidence
    look: LockReading
    blocked: Blocked | None
    live: bool
    busy: bool


class LockProofs:
    """Keeps the evidence. Only the control thread changes it, and any thread may read the results."""

    def __init__(self, *, store: Store, active_runs: ActiveRuns, clock: Clock) -> None:
        self._store = store
        self._active_runs = active_runs
        self._clock = clock
        self._records: dict[TableId, _Record] = {}
        self._closely: set[TableId] = set()
        self._rows: dict[TableId, LockProofRow] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have learned. Raises TemporaryError."""
        unsaved = {table for table, record in self._records.items() if self._rows.get(table) != _row(table, record)}
        rows = {row.table: row for row in self._store.rows(LockProofRow)}
        self._rows = rows
        for table in unsaved:
            self._save(table)

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from an observation of a table. The same observation is judged again only by the time that has
        passed.
        """
        record = self._records.get(table.id)
        if view.lock is None:
            self._records.pop(table.id, None)
            return
        if record is not None and record.look is view.lock:
            self._rethink(table.id, record, view)
            return
        identity = str(view.identity)
        if record is not None and record.identity != identity:
            record = None
        evidence = self._remembered(table.id, identity) if record is None else record.evidence
        busy = table.id in self._active_runs.busy()
        evidence = judged(
            evidence,
            view.lock,
            view,
            ours_before=self._were_here(table.id, view, evidence),
            # An observation that began while a run was under way may be judged after the run has ended.
            busy=busy or (record is not None and record.busy),
        )
        if record is not None and record.evidence.verdict is not evidence.verdict:
            facts = {"table": table.id, "verdict": evidence.verdict.value, "lock": summary(evidence)}
            if evidence.verdict is ProofState.PROVED:
                log.info("lock_proof", **facts)
            else:
                log.warning("lock_proof", **facts)
        self._records[table.id] = _Record(
            identity=identity,
            evidence=evidence,
            look=view.lock,
            blocked=unproved(evidence, view, table.id),
            live=is_live(view, view.observed_at),
            busy=busy,
        )
        self._save(table.id)

    def _rethink(self, table: TableId, record: _Record, view: TableView) -> None:
        """Judge an observation again by the time that has passed. The writers may have stopped."""
        now = self._clock.now()
        ours = self._were_here(table, view, record.evidence)
        record.evidence = at_rest(record.evidence, view, ours_before=ours, now=now)
        record.blocked, record.live = unproved(record.evidence, view, table), is_live(view, now)
        self._save(table)

    def resume(self, table: TableId) -> None:
        """Begin again, because an operator says that the writers of the table were corrected."""
        record = self._records.get(table)
        if record is not None:
            record.evidence = resumed(record.evidence)
            self._save(table)

    def forget(self, table: TableId) -> None:
        """Forget what this replica has seen of a table. The rows in the store stay."""
        self._records.pop(table, None)
        self._closely.discard(table)

    def blocked(self, table: TableId) -> Blocked | None:
        """Return why nothing may run on the table, or None if runs are allowed or nothing has to be proved."""
        record = self._records.get(table)
        return None if record is None else record.blocked

    def polls_again_within(self, table: TableId) -> timedelta | None:
        """Return how soon the table must be observed again to learn more, or None if its cadence is enough."""
        record = self._records.get(table)
        most = 0 if record is None or not record.live else _most_closely(record.evidence)
        if most == 0:
            self._closely.discard(table)
        elif len(self._closely) < most:
            self._closely.add(table)
        return CLOSE_POLLS if table in self._closely else None

    def evidence(self, table: TableId) -> Evidence | None:
        """Return what was seen of the lock of the table, or None if nothing has to be proved."""
        record = self._records.get(table)
        return None if record is None else record.evidence

    def _were_here(self, table: TableId, view: TableView, evidence: Evidence | None) -> bool:
        """Whether runs of ours may have taken the lock. It is checked only if it matters."""
        if evidence is not None and evidence.verdict is not ProofState.UNKNOWN:
            return False
        signed = any(instant.author is not None for instant in view.timeline.instants)
        return signed or bool(self._store.runs(table=table, limit=1))

    def _remembered(self, table: TableId, identity: str) -> Evidence | None:
        row = self._rows.get(table)
        if row is None or row.identity != identity:
            return None
        return Evidence(
            lock=row.lock,
            verdict=ProofState(row.verdict),
            witnessed=row.witnessed,
            several=row.several,
            without=row.without,
            seen_at=row.seen_at,
        )

    def _save(self, table: TableId) -> None:
        """Store what was learned. If the store does not answer, it is stored with the next observation."""
        row = _row(table, self._records[table])
        if row == self._rows.get(table):
            return
        try:
            self._store.keep_row(row)
        except TemporaryError as error:
            log.warning("store_unavailable", error=str(error))
        else:
            self._rows[table] = row


def _most_closely(evidence: Evidence) -> int:
    """Return how many tables at most are observed closely together with one that has this evidence and live writers.

    Of several writers, one that seldom commits may use another lock than those that commit often.
    """
    match evidence.verdict:
        case ProofState.UNKNOWN:
            return MOST_CLOSELY
        case ProofState.PROVED:
            return MOST_CLOSELY // 2 if evidence.several else 0
        case ProofState.DISPROVED:
            return 0
        case _:
            assert_never(evidence.verdict)


def _row(table: TableId, record: _Record) -> LockProofRow:
    evidence = record.evidence
    return LockProofRow(
        table=table,
        identity=record.identity,
        lock=evidence.lock,
        verdict=evidence.verdict.value,
        witnessed=min(evidence.witnessed, evidence.needed),  # after the proof the count need not be stored
        several=evidence.several,
        without=evidence.without,
        seen_at=evidence.seen_at,
    )
