"""Reading the configuration again while the daemon runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError
from lakewarden.planners.ports import TableFormat
from lakewarden.service.config.daemon.reloading import changed_keys, merged
from lakewarden.service.config.loading import Config, examine
from lakewarden.service.config.problems import Weight
from lakewarden.service.model.configuring.registration import RegistrationRow
from lakewarden.service.model.configuring.reload import ReloadOutcome
from lakewarden.service.wiring.in_force import TablesInForce, tables_of

log = structlog.get_logger(__name__)

_FEW = 3
"""How many problems a probe shows."""

_MOST_NAMED = 20


class Reloader:
    """Reads the configuration again. A file with an error changes nothing."""

    def __init__(
        self,
        file: Path,
        *,
        started_with: Mapping[str, Any],
        formats: Mapping[str, TableFormat],
        clock: Clock,
        in_force: TablesInForce,
        rows: Callable[[], Sequence[RegistrationRow]] = tuple,
        told: Callable[[ReloadOutcome, Config | None], None],
    ) -> None:
        """Take what the daemon was started with, without its tables. `in_force` puts the new ones in force. `rows` are
        the tables that are registered over the API.
        """
        self._file = file
        self._started_with = started_with
        self._formats = formats
        self._clock = clock
        self._in_force = in_force
        self._rows = rows
        self._told = told
        self.last: ReloadOutcome | None = None

    def reload(self) -> ReloadOutcome:
        """Read the configuration again, and put it in force if it has no error."""
        with self._in_force.lock:
            outcome, config = self._read()
            self.last = outcome
        self._told(outcome, config)
        if outcome.gone:
            log.warning("entries_are_gone", number=len(outcome.gone), entries=list(outcome.gone[:_MOST_NAMED]))
        if outcome.accepted:
            log.info("reloaded", tables=outcome.tables, needs_restart=list(outcome.needs_restart))
        else:
            log.warning("not_reloaded", problems=list(outcome.problems))
        return outcome

    def refusal(self) -> Sequence[str]:
        """Return what to tell of a configuration that was refused."""
        if self.last is None or self.last.accepted:
            return ()
        some = list(self.last.problems[:_FEW])
        more = len(self.last.problems) - len(some)
        return [
            "the configuration was changed and is refused: the last good one stays in force",
            *some,
            *([f"and {more} more: run lakewarden check-config"] if more else []),
        ]

    def _read(self) -> tuple[ReloadOutcome, Config | None]:
        examined = examine(self._file, to_serve=False, formats=self._formats, started_with=self._started_with)
        written = examined.document.values or {}
        problems = examined.of(Weight.ERROR)
        before = _entries(self._in_force.now.config)
        config = examined.config
        try:
            if config is not None:
                problems += self._put(config, written)
        except LakewardenError as error:
            problems.append(f"{self._file}: {error}")
        outcome = ReloadOutcome(
            accepted=not problems,
            at=self._clock.now(),
            tables=0 if config is None else len(config.tables),
            problems=tuple(problems),
            needs_restart=changed_keys(self._started_with, written),
            gone=() if config is None or problems else tuple(sorted(before - _entries(config))),
        )
        return outcome, config if outcome.accepted else None

    def _put(self, config: Config, written: Mapping[str, Any]) -> list[str]:
        """Put a configuration in force, or return why it cannot be.

        It is refused if a registered table that is served now could not be made under it. A table of the file counts
        more than a registered one.
        """
        now = self._in_force.now
        values = merged(self._started_with, written)
        tables = tables_of(config, values, self._file, self._rows(), formats=self._formats)
        served = {table.id for table in now.registered}
        listed = {table.id for table in config.tables}
        problems = [
            f"{self._file}: the registered table {id_} could not be served: {why}"
            for id_, why in tables.left_out.items()
            if id_ in served and id_ not in listed
        ]
        problems += [f"{self._file}: {why}" for why in self._in_force.unserved(tables)]
        if not problems:
            self._in_force.prepare(tables)
            self._in_force.put(tables, relist=True)
        return problems


def _entries(config: Config) -> set[str]:
    """Return the ids of listed tables, and the patterns."""
    return {*(str(table.id) for table in config.tables), *(one.pattern.match for one in config.discover)}
