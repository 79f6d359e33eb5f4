"""The proof of each table, from what the daemon knows of it. Nothing is read for it."""

from __future__ import annotations

from typing import assert_never

from lakewarden.executors.contract import Pool
from lakewarden.planners.model.proof import Proof
from lakewarden.planners.model.table import ActWhen, Mode, Table
from lakewarden.planners.model.view import TableView
from lakewarden.service.rules.proof import ProofFacts, in_words, missing, proofs
from lakewarden.service.state.daemon_state import DaemonState, Resources


class TableProofs:
    """Judges tables. Any thread may call it."""

    def __init__(self, *, resources: Resources, state: DaemonState) -> None:
        self._formats = resources.formats
        self._pools = resources.pools
        self._clock = resources.clock
        self._locks = state.proofs
        self._signs = state.writer_signs
        self._foreign_services = state.foreign_services
        self._kept_by_others = state.kept_by_others
        self._were_up: dict[str, Pool] = {}

    def of(self, table: Table, view: TableView | None, failure: str | None = None) -> tuple[Proof, ...]:
        """Return the checks of a table. `failure` is why it could not be observed the last time."""
        signs = self._signs.of(table.id)
        hook = self._formats[table.format].commit_hook
        capacities = {name: (pool, pool.capacity()) for name, pool in dict(self._pools).items()}
        return proofs(
            ProofFacts(
                table=table,
                now=self._clock.now(),
                view=view,
                failure=failure,
                evidence=self._locks.evidence(table.id),
                hook_at=signs.hook_at,
                beat_at=signs.beat_at,
                has_hook=hook is not None,
                foreign_services=self._foreign_services.of(table.id),
                kept_by_others=self._kept_by_others.of(table.id),
                slots={name: self._slots(name, pool, now.slots) for name, (pool, now) in capacities.items()},
                resting=frozenset(name for name, (_, now) in capacities.items() if now.resting),
            )
        )

    def lacking(self, table: Table, view: TableView) -> str | None:
        """Return what is not proved of a table in the mode act, if its policy asks for that. None if it may act."""
        match table.act_when:
            case ActWhen.AT_ONCE:
                return None
            case ActWhen.PROVED:
                pass
            case _:
                assert_never(table.act_when)
        if table.mode is not Mode.ACT:
            return None
        lacking = missing(self.of(table, view), table)
        return in_words(lacking) or None

    def _slots(self, name: str, pool: Pool, slots: int) -> int:
        """Return the slots of the workers of a profile. Workers that were up once have their jars. That they are
        replaced now, after so many runs, says nothing of a table.
        """
        if slots:
            self._were_up[name] = pool
        return slots or int(self._were_up.get(name) is pool)
