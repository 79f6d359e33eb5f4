"""Discovery: tables that catalogs know are registered without a restart, and dropped ones no longer attended.

Catalogs are listed by readers; what follows is done on the control thread. Each replica discovers for itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import islice

import structlog

from lakewarden.planners.model.table import Table, TableId
from lakewarden.service.control.membership import Membership
from lakewarden.service.events.listener import Listener
from lakewarden.service.model.found import Found, Source
from lakewarden.service.ownership.claims import Claims
from lakewarden.service.state.active_runs import ActiveRuns
from lakewarden.service.state.readers.threads import Threads
from lakewarden.service.state.table_registry import TableRegistry

log = structlog.get_logger(__name__)

_MOST_TOLD = 20
"""So many tables or namespaces stand in one line of the log."""

AGAIN_AFTER = timedelta(seconds=30)
"""A catalog that could not be listed is asked again after so long, or sooner if it is asked more often anyway."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A source, what it told last, and when it is asked again, in monotonic seconds."""

    source: Source
    found: Found = field(default_factory=Found)
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
        register: TableRegistry,
        membership: Membership,
        claims: Claims,
        book: ActiveRuns,
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
        self._nested: dict[TableId, str] = {}

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
        self._tell(asked, found)
        told = {table.id for table in found.tables}
        untold = (table for table in asked.found.tables if table.id not in told and not found.tells_of(table.id))
        asked.found = replace(found, tables=(*found.tables, *untold))
        self._listener.discovered(asked.source.name, asked.found)
        asked.troubles = 0
        asked.due_at = now + every.total_seconds()
        return True

    def _tell(self, asked: _Asked, found: Found) -> None:
        """Log what was not told of the time before."""
        unlisted = {place: why for place, why in found.unlisted.items() if place not in asked.found.unlisted}
        if unlisted:
            shown = dict(islice(unlisted.items(), _MOST_TOLD))
            log.warning("namespaces_not_listed", source=asked.source.name, number=len(unlisted), namespaces=shown)
        refused = {table: why for table, why in found.refused.items() if table not in asked.found.refused}
        if refused:
            shown = dict(islice(refused.items(), _MOST_TOLD))
            log.warning("cannot_be_registered", source=asked.source.name, number=len(refused), tables=shown)

    def _go_by_what_was_found(self) -> None:
        before = {table.id: table for table in self._register.values()}
        found = {table.id: table for table in self._tables()}
        # A table stays what it is. One that is now somewhere else is another one, which comes when the first has gone.
        stay = {id_: table for id_, table in before.items() if id_ in found and found[id_].location == table.location}
        # A dropped table with a run stays until that is settled.
        stay |= {id_: table for id_, table in before.items() if id_ not in stay and self._book.of(id_)}
        taken = {table.location for table in stay.values()}
        new = [table for table in found.values() if table.id not in before and table.location not in taken]
        gone = before.keys() - stay.keys()
        if not new and not gone:
            return
        log.info("discovered", new=sorted(table.id for table in new), gone=sorted(gone))
        self._register.replace((*stay.values(), *new))
        for id_ in gone:
            self._claims.leave(id_)
        for table in new:
            self._claims.enter(table)
        self._membership.registered_anew(gone=gone)

    def _tables(self) -> Iterator[Table]:
        """Yield what is registered from now on: the first to come has the id, and the place with all below it. The
        order is the configuration's, whichever source answers first; of a source, a table that is there was first.
        """
        ids: set[TableId] = set()
        taken: dict[str, TableId] = {}
        around: set[str] = set()
        told: dict[TableId, str] = {}
        found = (table for asked in self._asked for table in sorted(asked.found.tables, key=self._is_new))
        for table in (*self._listed, *found):
            above = tuple(_above(table.location))
            inside = next((taken[place] for place in above if place in taken), None)
            if table.id in ids or table.location in taken:
                continue
            if inside is not None or table.location in around:
                told[table.id] = f"inside of {inside}" if inside is not None else "around another table"
                continue
            ids.add(table.id)
            taken[table.location] = table.id
            around.update(above)
            yield table
        if news := {table: why for table, why in told.items() if table not in self._nested}:
            log.warning("cannot_be_registered", number=len(news), tables=dict(islice(news.items(), _MOST_TOLD)))
        self._nested = told

    def _is_new(self, table: Table) -> bool:
        known = self._register.get(table.id)
        return known is None or known.location != table.location


def _above(location: str) -> Iterator[str]:
    """Yield the places above a location: what is cleaned up in a table there could be taken from the one below."""
    above = posixpath.dirname(location)
    while above not in ("", location) and not above.endswith((":", ":/")):
        yield above
        location, above = above, posixpath.dirname(above)
