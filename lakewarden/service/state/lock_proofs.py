"""Lock proofs: of each table, whether its writers were seen to hold the lock that its options name.

What was seen survives the daemon, and follows a table to another replica: a writer may commit once a day. How it is
judged is in `planners/lock_proof.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

import structlog

from lakewarden.planners.lock_proof import Evidence, Verdict, at_rest, is_live, judged, resumed, summary, unproved
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.decision import Blocked
from lakewarden.planners.model.errors import TemporaryError
from lakewarden.planners.model.lock import LockLook
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.model.view import TableView
from lakewarden.service.model.rows import LockProofRow
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.store.port import Store

log = structlog.get_logger(__name__)

CLOSE_LOOKS = timedelta(seconds=0.25)
"""While writers are there and nothing is proved, a table is looked at so often: two commits between two looks tell less
than one."""

MOST_CLOSELY = 50
"""So many tables are looked at so closely at a time: a thousand that are served for the first time take their turns."""


@dataclass(slots=True)
class _Known:
    """What is known of one table. `busy`: a run of ours was under way when its last look was judged."""

    identity: str
    evidence: Evidence
    look: LockLook
    blocked: Blocked | None
    live: bool
    busy: bool


class LockProofs:
    """Keeps the evidence. Only the control thread changes it; what it says may be read from anywhere."""

    def __init__(self, *, store: Store, book: ActiveRuns, clock: Clock) -> None:
        self._store = store
        self._book = book
        self._clock = clock
        self._known: dict[TableId, _Known] = {}
        self._closely: set[TableId] = set()
        self._rows: dict[TableId, LockProofRow] = {}
        self.refresh()

    def refresh(self) -> None:
        """Read anew what other replicas have learned. Raises TemporaryError."""
        unsaved = {table for table, known in self._known.items() if self._rows.get(table) != _row(table, known)}
        rows = {row.table: row for row in self._store.lock_proofs()}
        self._rows = rows
        for table in unsaved:
            self._save(table)

    def seen(self, table: Table, view: TableView) -> None:
        """Learn from a look at a table. One that was learned from before tells nothing new."""
        known = self._known.get(table.id)
        if view.lock is None:
            self._known.pop(table.id, None)
            return
        if known is not None and known.look is view.lock:
            self._rethink(table.id, known, view)
            return
        identity = str(view.identity)
        if known is not None and known.identity != identity:
            known = None
        evidence = self._remembered(table.id, identity) if known is None else known.evidence
        busy = table.id in self._book.busy()
        evidence = judged(
            evidence,
            view.lock,
            view,
            ours_before=self._were_here(table.id, view, evidence),
            # A look that was begun while a run was under way may be judged when it has ended.
            busy=busy or (known is not None and known.busy),
        )
        if known is not None and known.evidence.verdict is not evidence.verdict:
            log.warning("lock_proof", table=table.id, verdict=evidence.verdict.value, lock=summary(evidence))
        self._known[table.id] = _Known(
            identity=identity,
            evidence=evidence,
            look=view.lock,
            blocked=unproved(evidence, view),
            live=is_live(view, view.observed_at),
            busy=busy,
        )
        self._save(table.id)

    def _rethink(self, table: TableId, known: _Known, view: TableView) -> None:
        """Judge a look once more by the time that has passed since: its writers may have gone."""
        now = self._clock.now()
        ours = self._were_here(table, view, known.evidence)
        known.evidence = at_rest(known.evidence, view, ours_before=ours, now=now)
        known.blocked, known.live = unproved(known.evidence, view), is_live(view, now)
        self._save(table)

    def resume(self, table: TableId) -> None:
        """Begin anew: a person says that the table's writers were mended."""
        known = self._known.get(table)
        if known is not None:
            known.evidence = resumed(known.evidence)
            self._save(table)

    def forget(self, table: TableId) -> None:
        """Forget what this replica has seen of a table; what is in the store stays."""
        self._known.pop(table, None)
        self._closely.discard(table)

    def blocked(self, table: TableId) -> Blocked | None:
        """Return why nothing may run on the table; None where it may, or where nothing is to be proved."""
        known = self._known.get(table)
        return None if known is None else known.blocked

    def looks_again_within(self, table: TableId) -> timedelta | None:
        """Return how soon the table is to be looked at again to learn more; None where its cadence will do."""
        known = self._known.get(table)
        most = 0 if known is None or not known.live else _most_closely(known.evidence)
        if most == 0:
            self._closely.discard(table)
        elif len(self._closely) < most:
            self._closely.add(table)
        return CLOSE_LOOKS if table in self._closely else None

    def evidence(self, table: TableId) -> Evidence | None:
        """Return what was seen of the table's lock; None where nothing is to be proved."""
        known = self._known.get(table)
        return None if known is None else known.evidence

    def _were_here(self, table: TableId, view: TableView, evidence: Evidence | None) -> bool:
        """Whether runs of ours may have taken the lock; asked only where it matters."""
        if evidence is not None and evidence.verdict is not Verdict.UNKNOWN:
            return False
        signed = any(instant.author is not None for instant in view.timeline.instants)
        return signed or bool(self._store.runs(table=table, limit=1))

    def _remembered(self, table: TableId, identity: str) -> Evidence | None:
        row = self._rows.get(table)
        if row is None or row.identity != identity:
            return None
        return Evidence(
            lock=row.lock,
            verdict=Verdict(row.verdict),
            witnessed=row.witnessed,
            several=row.several,
            without=row.without,
            seen_at=row.seen_at,
        )

    def _save(self, table: TableId) -> None:
        """Keep what was learned. Should the store be away, it is kept with the next look."""
        row = _row(table, self._known[table])
        if row == self._rows.get(table):
            return
        try:
            self._store.keep_lock_proof(row)
        except TemporaryError as trouble:
            log.warning("store_trouble", error=str(trouble))
        else:
            self._rows[table] = row


def _most_closely(evidence: Evidence) -> int:
    """Return beside how many other tables it is worth while to look closely at one with living writers.

    Where several write, one that seldom commits may have another lock than those that do so all the time.
    """
    match evidence.verdict:
        case Verdict.UNKNOWN:
            return MOST_CLOSELY
        case Verdict.PROVED:
            return MOST_CLOSELY // 2 if evidence.several else 0
        case Verdict.DISPROVED:
            return 0
        case _:
            assert_never(evidence.verdict)


def _row(table: TableId, known: _Known) -> LockProofRow:
    evidence = known.evidence
    return LockProofRow(
        table=table,
        identity=known.identity,
        lock=evidence.lock,
        verdict=evidence.verdict.value,
        witnessed=min(evidence.witnessed, evidence.needed),  # a proof that goes on need not be written down
        several=evidence.several,
        without=evidence.without,
        seen_at=evidence.seen_at,
    )
