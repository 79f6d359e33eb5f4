"""The adoptions of all tables, as the store has them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.table import SettingOrigin, Table, TableId
from lakewarden.service.model.rows import AdoptionPhase, AdoptionRow
from lakewarden.service.rules.adoption import mode_in_force
from lakewarden.service.store.port import Store

_ORIGIN = SettingOrigin(level="adoption")


class Adoptions:
    """Keeps one row for each table. Only the control thread changes it. Any thread may read.

    `edition` changes with every change of a phase.
    """

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._rows: dict[TableId, AdoptionRow] = {}
        self.edition = 0
        self.refresh()

    def refresh(self) -> None:
        """Read what other replicas have changed. Raises TemporaryError."""
        rows = {row.table: row for row in self._store.adoptions()}
        if rows != self._rows:
            self._rows = rows
            self.edition += 1

    def of(self, table: TableId) -> AdoptionRow | None:
        """Return the adoption of a table. None if it has none."""
        return self._rows.get(table)

    def rows(self) -> Collection[AdoptionRow]:
        """Return all adoptions."""
        return tuple(self._rows.values())

    def in_force(self, table: Table) -> Table:
        """Return a table of the configuration with the mode that is in force."""
        mode = mode_in_force(table, self.of(table.id))
        if mode is table.mode:
            return table
        return replace(table, mode=mode, configured_mode=table.mode, sources={**table.sources, "mode": _ORIGIN})

    def begin(self, waves: Mapping[TableId, int], *, by: str) -> None:
        """Begin the adoption of tables. Raises TemporaryError."""
        now = self._clock.now()
        for table, wave in waves.items():
            phase = AdoptionPhase.PROVING if wave == 1 else AdoptionPhase.WAITING
            self.keep(AdoptionRow(table=table, phase=phase, since=now, wave=wave, asked_by=by, asked_at=now))

    def leave(self, tables: Collection[TableId], *, by: str) -> None:
        """Give tables back. Raises TemporaryError."""
        now = self._clock.now()
        for table in tables:
            before = self.of(table)
            wave = 1 if before is None else before.wave
            self.keep(
                AdoptionRow(table=table, phase=AdoptionPhase.LEFT, since=now, wave=wave, asked_by=by, asked_at=now)
            )

    def keep(self, row: AdoptionRow) -> None:
        """Keep a row. Raises TemporaryError."""
        before = self._rows.get(row.table)
        if before == row:
            return
        self._store.keep_adoption(row)
        self._rows = {**self._rows, row.table: row}
        if before is None or before.phase is not row.phase:
            self.edition += 1
