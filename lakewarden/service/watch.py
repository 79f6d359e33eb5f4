"""The watch: keeps the last observation of every table, and reads a table again only when it may have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage, TableFormat

FULL_EVERY = 360
"""Every so many looks a table is read in full: a token may miss what was changed in place."""


@dataclass(slots=True)
class _Kept:
    observation: Observation
    looks: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a look brought: the observation, and whether it was read anew."""

    observation: Observation
    news: bool


class Watch:
    """Looks at tables. Only the control thread looks; kept views may be read from anywhere."""

    def __init__(
        self, *, formats: Mapping[str, TableFormat], storage_for: Callable[[str], Storage], clock: Clock
    ) -> None:
        self._formats = formats
        self._storage_for = storage_for
        self._clock = clock
        self._kept: dict[TableId, _Kept] = {}

    def look(self, table: Table) -> Look:
        """Return the table's observation, reading it only where the kept one is no longer vouched for.

        Raises what the format's `token` and `observe` raise; what was kept stays kept.
        """
        kept = self._kept.get(table.id)
        if kept is not None and kept.looks < FULL_EVERY:
            token = self._formats[table.format].token(table, self._storage_for(table.location))
            if kept.observation.vouched_for(token=token, now=self._clock.now()):
                kept.looks += 1
                return Look(observation=kept.observation, news=False)
        return self.read(table)

    def read(self, table: Table) -> Look:
        """Read the table now, whatever its token says: before a permit, nothing less will do."""
        kept = self._kept.get(table.id)
        in_full = kept is None or kept.looks >= FULL_EVERY
        observation = self._observed(table, None if kept is None or in_full else kept.observation)
        self._kept[table.id] = _Kept(observation=observation, looks=0 if kept is None or in_full else kept.looks + 1)
        return Look(observation=observation, news=True)

    def _observed(self, table: Table, previous: Observation | None) -> Observation:
        """Ask the format. What it did not foresee about one table must end neither the others' runs nor the daemon."""
        try:
            return self._formats[table.format].observe(
                table, self._storage_for(table.location), previous, now=self._clock.now()
            )
        except LakewardenError:
            raise
        except Exception as unforeseen:
            raise UnknownError(f"{type(unforeseen).__name__}: {unforeseen}") from unforeseen

    def kept(self, table: TableId) -> Observation | None:
        """Return the last observation, however old."""
        kept = self._kept.get(table)
        return None if kept is None else kept.observation

    def forget(self, table: TableId) -> None:
        """Drop what is kept of a table, so that the next look reads everything."""
        self._kept.pop(table, None)
