"""The watch: keeps the last observation of every table, and reads a table again only when it may have changed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from datetime import timedelta

from lakewarden.planners.model.clock import Clock
from lakewarden.planners.model.errors import LakewardenError, TemporaryError, UnknownError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Observation, Storage, TableFormat
from lakewarden.service.readers import Readers, ReaderThreads

FULL_EVERY = 360
"""Every so many looks a table is read in full: a token may miss what was changed in place."""

PATIENCE = timedelta(seconds=2)
"""How long the control thread waits for a remote store where it cannot go on without an answer: permits, endings."""


@dataclass(slots=True)
class _Kept:
    observation: Observation
    looks: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a look brought: the observation, and whether it was read anew."""

    observation: Observation
    news: bool


def _is_remote(table: Table) -> bool:
    return "://" in table.location


def _in_time(look: Future[Look], table: Table) -> Look:
    try:
        return look.result(timeout=PATIENCE.total_seconds())
    except FutureTimeoutError:
        if look.done():  # the table's own trouble, which happens to have this name
            raise
        look.cancel()
        raise TemporaryError(f"{table.location} was not read within {PATIENCE.total_seconds():g} s") from None


class Watch:
    """Looks at tables. Only the control thread looks; kept views may be read from anywhere.

    Local tables are read at once. Those of remote stores are read by `readers`, since a slow store must not stop the
    control thread: it asks whether a look is `ready`, and is told by `answered` when it is.
    """

    def __init__(
        self,
        *,
        formats: Mapping[str, TableFormat],
        storage_for: Callable[[str], Storage],
        clock: Clock,
        readers: Readers | None = None,
        answered: Callable[[TableId], None] = lambda _: None,
    ) -> None:
        self._formats = formats
        self._storage_for = storage_for
        self._clock = clock
        self._readers = readers or ReaderThreads()
        self._answered = answered
        self._kept: dict[TableId, _Kept] = {}
        self._looks: dict[TableId, Future[Look]] = {}
        self._again: set[TableId] = set()
        self._one_reader: dict[TableId, threading.Lock] = {}

    def ready(self, table: Table, *, anew: bool) -> bool:
        """Whether `look` will answer at once. Where not, a reader looks (with `anew`: reads, whatever the token
        says), and `answered` is called when it has.
        """
        if not _is_remote(table):
            return True
        look = self._looks.get(table.id)
        if look is not None:
            if anew:
                self._again.add(table.id)  # what was read may be older than what made the table dirty
            return look.done()
        self._looks[table.id] = look = self._begun(table, self._read_now if anew else self._look_now)
        look.add_done_callback(lambda _: self._answered(table.id))
        return look.done()

    def look(self, table: Table, *, anew: bool = False) -> Look:
        """Return the table's observation, reading it only where the kept one is no longer vouched for, or `anew`.

        Raises what the format's `token` and `observe` raise; what was kept stays kept. Of a remote table it is the
        look that is ready.
        """
        if not _is_remote(table):
            return self._read_now(table) if anew else self._look_now(table)
        look = self._looks.pop(table.id, None) or self._begun(table, self._look_now)
        if table.id in self._again:
            self._again.discard(table.id)
            self._answered(table.id)
        return self._newest(table, _in_time(look, table))

    def read(self, table: Table) -> Look:
        """Read the table now, whatever its token says: before a permit, nothing less will do.

        Raises TemporaryError where a remote store takes longer than the control thread can wait.
        """
        return _in_time(self._begun(table, self._read_now), table) if _is_remote(table) else self._read_now(table)

    def _newest(self, table: Table, look: Look) -> Look:
        """Return the look, or what was read since it was answered: before a permit, or when a run had ended. On the
        older view a plan that the run has completed would still wait to be.
        """
        kept = self._kept.get(table.id)
        if kept is None or kept.observation is look.observation:
            return look
        return Look(observation=kept.observation, news=True)

    def _begun(self, table: Table, act: Callable[[Table], Look]) -> Future[Look]:
        """Let a reader do it. Two readers of one table take turns: what they keep builds on what was kept."""
        lock = self._one_reader.setdefault(table.id, threading.Lock())

        def read() -> Look:
            with lock:
                return act(table)

        return self._readers.submit(read)

    def _look_now(self, table: Table) -> Look:
        kept = self._kept.get(table.id)
        if kept is not None and kept.looks < FULL_EVERY:
            token = self._formats[table.format].token(table, self._storage_for(table.location))
            if kept.observation.vouched_for(token=token, now=self._clock.now()):
                kept.looks += 1
                return Look(observation=kept.observation, news=False)
        return self._read_now(table)

    def _read_now(self, table: Table) -> Look:
        kept = self._kept.get(table.id)
        if kept is None:
            previous, looks = None, 0
        elif kept.looks >= FULL_EVERY and not kept.observation.view.faults:
            previous, looks = replace(kept.observation, memo=None), 0
        else:
            previous, looks = kept.observation, kept.looks + 1
        observation = self._observed(table, previous)
        self._kept[table.id] = _Kept(observation=observation, looks=looks)
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
        self._looks.pop(table, None)
        self._again.discard(table)
