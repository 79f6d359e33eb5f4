"""Registering tables while the daemon runs. The store keeps them, and all replicas on it serve them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from lakewarden.executors.edge import edge
from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import TableFormat
from lakewarden.service.config.daemon import changed_keys, merged
from lakewarden.service.config.loading import Config, examine
from lakewarden.service.config.problems import Weight
from lakewarden.service.config.registering import made_of
from lakewarden.service.model.access import Act, ActKind, Caller
from lakewarden.service.model.registrations import (
    Expected,
    NotRegisteredError,
    OtherRegistrationError,
    Registration,
    RegistrationRefusedError,
    RegistrationRow,
    ReloadOutcome,
    any_registration,
)
from lakewarden.service.rules.registering import TakenPlaces
from lakewarden.service.store.sql.store import Store
from lakewarden.service.wiring.in_force import Tables, TablesInForce, tables_of, with_rows

log = structlog.get_logger(__name__)

EVERY = timedelta(seconds=2)
"""How often a replica looks for tables that another replica has registered, changed or removed."""

_TRIES = 5
_AGAIN = timedelta(seconds=1)
_FILE = "change it in the configuration file, and reload"


class Registrar:
    """Registers, changes and removes tables. Its methods wait for the store. For any thread."""

    def __init__(
        self,
        in_force: TablesInForce,
        rows: Sequence[RegistrationRow],
        *,
        store: Store,
        clock: Clock,
        formats: Mapping[str, TableFormat],
        registered: Mapping[TableId, Table],
    ) -> None:
        """Take the rows that are in force, and all tables that the daemon serves, also those that it has found."""
        self._in_force = in_force
        self._store = store
        self._clock = clock
        self._formats = formats
        self._registered = registered
        self._rows = {row.table: row for row in rows}
        self._number = max((row.number for row in rows), default=0)

    @property
    def rows(self) -> Sequence[RegistrationRow]:
        """Return the rows that this daemon knows."""
        return [*self._rows.values()]

    def registrations(self) -> Sequence[Registration]:
        """Return every registered table, by its id."""
        with self._in_force.lock:
            self._catch_up()
            left_out = self._in_force.now.left_out
            rows = sorted(self._rows.values(), key=lambda row: row.table)
            return [_registration(row, left_out.get(row.table)) for row in rows if row.entry is not None]

    def register(self, entry: Mapping[str, Any], *, caller: Caller) -> Registration:
        """Register a table."""
        return self._kept(None, entry, caller=caller, kind=ActKind.TABLE_REGISTERED)

    def change(
        self, table: TableId, entry: Mapping[str, Any], *, caller: Caller, expected: Expected = any_registration
    ) -> Registration:
        """Give a registered table other settings."""
        kind = ActKind.REGISTRATION_CHANGED
        return self._kept(table, {"id": table, **entry}, caller=caller, kind=kind, expected=expected)

    def remove(self, table: TableId, *, caller: Caller, expected: Expected = any_registration) -> None:
        """Serve a table no longer. Its runs end first. Nothing of the table is touched."""
        with self._in_force.lock:
            for _ in range(_TRIES):
                self._catch_up()
                before = self._there(table, expected)
                row = self._row(table, None, caller)
                if self._store.keep_registration(row, act=self._act(row, before, caller, ActKind.TABLE_REMOVED)):
                    self._take([row], self._with([row]))
                    return
        raise _busy()

    def catch_up(self) -> None:
        """Serve what other replicas have registered, changed or removed."""
        with self._in_force.lock:
            self._catch_up()

    def _kept(
        self,
        table: TableId | None,
        entry: Mapping[str, Any],
        *,
        caller: Caller,
        kind: ActKind,
        expected: Expected = any_registration,
    ) -> Registration:
        with self._in_force.lock:
            for _ in range(_TRIES):
                self._catch_up()
                before = None if table is None else self._there(table, expected)
                made = self._made(entry)
                self._check(made, before)
                row = self._row(made.id, json.dumps({"id": made.id, **entry}, sort_keys=True), caller)
                tables = self._with([row])
                if unserved := self._in_force.unserved(tables):
                    raise RegistrationRefusedError("; ".join(unserved))
                self._in_force.prepare(tables)
                if self._store.keep_registration(row, act=self._act(row, before, caller, kind)):
                    self._take([row], tables)
                    return _registration(row, tables.left_out.get(row.table))
        raise _busy()

    def _made(self, entry: Mapping[str, Any]) -> Table:
        made = made_of([entry], self._in_force.now.base, formats=self._formats)
        (table,), (why,) = made.tables, made.problems
        if table is None:
            raise RegistrationRefusedError("; ".join(why) or "the table cannot be made of these settings")
        return table

    def _check(self, made: Table, before: RegistrationRow | None) -> None:
        """Raise RegistrationRefusedError if a table cannot be registered, or cannot be changed so."""
        now = self._in_force.now
        if any(table.id == made.id for table in now.config.tables):
            raise RegistrationRefusedError(f"the configuration file has the table {made.id}", remedy=_FILE)
        there = self._rows.get(made.id)
        if before is None and there is not None and there.entry is not None:
            detail = f"the table {made.id} is registered already"
            raise RegistrationRefusedError(detail, remedy=f"change it: PUT /v1/registrations/{made.id}")
        former = next((entry for entry in now.registered if entry.id == made.id), None)
        if former is not None and (former.location, former.format) != (made.location, made.format):
            detail = f"the table {made.id} is a {former.format} table at {former.location}: its place and format stay"
            raise RegistrationRefusedError(detail, remedy="remove it, and register the other table")
        reason = TakenPlaces((*self._registered.values(), *now.listed)).contradiction(made)
        if reason is not None:
            raise RegistrationRefusedError(reason)

    def _there(self, table: TableId, expected: Expected) -> RegistrationRow:
        row = self._rows.get(table)
        if row is not None and row.entry is not None:
            if not expected(_registration(row, self._in_force.now.left_out.get(table))):
                detail = f"the registration of {table} has changed since it was read"
                raise OtherRegistrationError(detail, remedy=f"read it again: GET /v1/registrations/{table}")
            return row
        if any(entry.id == table for entry in self._in_force.now.config.tables):
            raise RegistrationRefusedError(f"the table {table} is in the configuration file", remedy=_FILE)
        if table in self._registered:
            detail = f"the table {table} was found by a pattern of the configuration"
            raise RegistrationRefusedError(detail, remedy="change the pattern, or register the table under its id")
        raise NotRegisteredError(f"no table {table!r} is registered over the API")

    def _row(self, table: TableId, entry: str | None, caller: Caller) -> RegistrationRow:
        return RegistrationRow(table=table, entry=entry, number=self._number + 1, by=caller.name, at=self._clock.now())

    def _act(self, row: RegistrationRow, before: RegistrationRow | None, caller: Caller, kind: ActKind) -> Act:
        return Act(
            at=row.at,
            who=caller.name,
            key=caller.key,
            kind=kind,
            table=row.table,
            before=None if before is None else before.entry,
            after=row.entry,
        )

    def _catch_up(self) -> None:
        later = self._store.registrations(after=self._number)
        if later:
            tables = self._with(later)
            self._in_force.prepare(tables)
            self._take(later, tables)

    def _with(self, rows: Sequence[RegistrationRow]) -> Tables:
        """Return the tables in force with these rows in place of the former ones.

        A table that was left out may be served now: the one in its way may be gone.
        """
        again = {id_: self._rows[id_] for id_ in self._in_force.now.left_out if id_ in self._rows}
        changed = {**again, **{row.table: row for row in rows}}
        return with_rows(self._in_force.now, [*changed.values()], formats=self._formats)

    def _take(self, rows: Sequence[RegistrationRow], tables: Tables) -> None:
        """Put rows in force that the store has."""
        self._rows |= {row.table: row for row in rows}
        self._number = max(self._number, *(row.number for row in rows))
        self._in_force.put(tables, relist=False)
        log.info("registrations_changed", tables=[row.table for row in rows][:20], number=len(rows))
        if tables.left_out:
            log.warning("registrations_left_out", tables=dict(list(tables.left_out.items())[:20]))


def _registration(row: RegistrationRow, problem: str | None) -> Registration:
    entry = json.loads(row.entry or "{}")
    return Registration(table=row.table, entry=entry, by=row.by, at=row.at, problem=problem)


def _busy() -> TemporaryError:
    return TemporaryError("other replicas register tables at the same time: try again", delay=_AGAIN)


@contextmanager
def catching_up(registrar: Registrar, *, alone: bool) -> Iterator[None]:
    """Look for changes by other replicas inside the `with` block, in a thread. `alone`: there are none."""
    if alone:
        yield
        return
    over = threading.Event()
    thread = threading.Thread(target=_catch_up_on, args=(registrar, over), name="registrations", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(timeout=5)


def _catch_up_on(registrar: Registrar, over: threading.Event) -> None:
    while not over.wait(EVERY.total_seconds()):
        with edge("registrations_not_read"):
            try:
                registrar.catch_up()
            except LakewardenError as error:
                log.warning("registrations_not_read", error=str(error))


# Reading the configuration again while the daemon runs.


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
        tell: Callable[[ReloadOutcome, Config | None], None],
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
        self._tell = tell
        self.last: ReloadOutcome | None = None

    def reload(self) -> ReloadOutcome:
        """Read the configuration again, and put it in force if it has no error."""
        with self._in_force.lock:
            outcome, config = self._read()
            self.last = outcome
        self._tell(outcome, config)
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
    return {*(str(table.id) for table in config.tables), *(discover.pattern.match for discover in config.discover)}
