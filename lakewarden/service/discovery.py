"""Discovery: tables that catalogs know are registered without a restart, and dropped ones no longer attended.

Catalogs are listed by readers; what follows is done on the control thread. Each replica discovers for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol

import structlog

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.book import Book
from lakewarden.service.claims import Claims
from lakewarden.service.events import Listener
from lakewarden.service.membership import Membership
from lakewarden.service.readers.threads import Threads
from lakewarden.service.register import Register

log = structlog.get_logger(__name__)

AGAIN_AFTER = timedelta(seconds=30)
"""A catalog that could not be listed is asked again after so long, or sooner if it is asked more often anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The tables of a source. `unlisted` are the beginnings of locations of which it cannot tell now, with why."""

    tables: Sequence[Table] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """Where tables are found."""

    @property
    def name(self) -> str:
        """Return what people know it by."""
        ...

    @property
    def every(self) -> timedelta:
        """Return how often it is asked."""
        ...

    def find(self) -> Found:
        """Return all of its tables that it can tell of, in an order that stays. Raises an error where that is none."""
        ...


@dataclass(slots=True, eq=False)
class _Asked:
    """A source, what it told last, and when it is asked again, in monotonic seconds."""

    source: Source
    found: Sequence[Table] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    listing: Future[Found] | None = None
    due_at: float = float("-inf")
    troubles: int = field(default=0)


class Discovery:
    """Keeps the register as the sources have it. Only the control thread calls it."""

    def __init__(
        self,
        *,
        listed: Collection[Table],
        sources: Sequence[Source],
        register: Register,
        membership: Membership,
        claims: Claims,
        book: Book,
        threads: Threads,
        listener: Listener,
        wake: Callable[[], None],
    ) -> None:
        """Know that `listed` tables were registered by hand: they stay, and stay what they are."""
        self._listed = listed
        self._asked = [_Asked(source=source) for source in sources]
        self._register = register
        self._membership = membership
        self._claims = claims
        self._book = book
        self._threads = threads
        self._listener = listener
        self._wake = wake

    def keep_up(self, now: float) -> None:
        """Ask the sources whose time has come, and go by those that have answered."""
        news = False
        for asked in self._asked:
            if asked.listing is None and now >= asked.due_at:
                asked.listing = self._threads.submit(asked.source.find, place=asked.source.name)
                asked.listing.add_done_callback(lambda _: self._wake())
            if asked.listing is not None and asked.listing.done():
                news = self._heard(asked, asked.listing, now) or news
                asked.listing = None
        if news:
            self._go_by_what_was_found()

    def _heard(self, asked: _Asked, answer: Future[Found], now: float) -> bool:
        """Take an answer; return whether it is one. Of what a source cannot tell stays what it told before."""
        every = asked.source.every
        try:
            found = answer.result()
        except Exception as trouble:  # noqa: BLE001 - one source's trouble must end neither the others nor the daemon
            asked.troubles += 1
            asked.due_at = now + min(every, AGAIN_AFTER).total_seconds()
            if asked.troubles == 1:
                log.warning("discovery_failed", source=asked.source.name, error=str(trouble))
            self._listener.discovery_failed(asked.source.name, str(trouble))
            return False
        if news := {place: why for place, why in found.unlisted.items() if place not in asked.unlisted}:
            log.warning("namespaces_not_listed", source=asked.source.name, namespaces=news)
        untold = tuple(found.unlisted)
        asked.found = (*found.tables, *(table for table in asked.found if table.location.startswith(untold)))
        asked.unlisted = found.unlisted
        self._listener.discovered(asked.source.name, found.unlisted)
        asked.troubles = 0
        asked.due_at = now + every.total_seconds()
        return True

    def _go_by_what_was_found(self) -> None:
        before = {table.id: table for table in self._register.values()}
        after = {table.id: table for table in self._tables()}
        # A dropped table with a run stays until that is settled.
        after |= {id_: table for id_, table in before.items() if id_ not in after and self._book.of(id_)}
        new, gone = after.keys() - before.keys(), before.keys() - after.keys()
        if not new and not gone:
            return
        log.info("discovered", new=sorted(new), gone=sorted(gone))
        self._register.replace(after.values())
        for table in gone:
            self._claims.leave(table)
        for table in new:
            self._claims.enter(after[table])
        self._membership.registered_anew(gone=gone)

    def _tables(self) -> Iterator[Table]:
        """Yield what is registered from now on: whoever comes first has the id and the location."""
        ids: set[TableId] = set()
        locations: set[str] = set()
        for table in (*self._listed, *(found for asked in self._asked for found in asked.found)):
            if table.id not in ids and table.location not in locations:
                ids.add(table.id)
                locations.add(table.location)
                yield table
