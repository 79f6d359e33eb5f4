"""Discovery: tables of catalogs are registered without a restart, and dropped tables are no longer owned.

Readers list the catalogs. The rest runs on the control thread. Each replica discovers for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import islice

import structlog

from lakewarden.executors.contract import Pool
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.table import Table, TableId
from lakewarden.planners.ports import Listing
from lakewarden.planners.storage import Storages
from lakewarden.planners.storage.locations import by_place, folders_above
from lakewarden.service.config.layers.patterns import Discover, fitting
from lakewarden.service.config.layers.templates import dotted, legal_beginning
from lakewarden.service.control.membership import Membership
from lakewarden.service.model.table_sources import FoundTables, Source, SourceStatus
from lakewarden.service.state.daemon_state import DaemonState, Resources

# A source of tables while the daemon runs: its last answer, and when it is asked again.


@dataclass(slots=True, eq=False)
class AskedSource:
    """A source, its last answer, and when it is asked again, in monotonic seconds."""

    source: Source
    found: FoundTables = field(default_factory=FoundTables)
    listing: Future[FoundTables] | None = None
    due_at: float = float("-inf")
    failures: int = field(default=0)
    heard: bool = False
    asked_at: datetime | None = None
    answered_at: datetime | None = None
    failure: str | None = None

    def status(self, left_out: Mapping[str, str]) -> SourceStatus:
        """Return the source as people see it. `left_out` are its tables that cannot be served beside others."""
        return SourceStatus(
            name=self.source.name,
            every=self.source.every,
            listing=self.listing is not None,
            asked_at=self.asked_at,
            answered_at=self.answered_at,
            failure=self.failure,
            tables=tuple(table.id for table in self.found.tables),
            refused={**self.found.refused, **left_out},
            unlisted=self.found.unlisted,
        )


log = structlog.get_logger(__name__)

_MOST_TOLD = 20
"""How many tables or namespaces one line of the log names."""

_REMEDY = "list it under tables, with an id of its own"

HELD_SECONDS = 1.0
"""How often a daemon looks whether the runs of tables with new settings have ended."""

AGAIN_AFTER = timedelta(seconds=30)
"""How long after a failure a catalog is listed again, unless its interval is shorter."""


class Discovery:
    """Keeps the registered tables equal to the sources. Only the control thread calls it."""

    def __init__(
        self,
        *,
        listed: Collection[Table],
        sources: Sequence[Source],
        resources: Resources,
        state: DaemonState,
        membership: Membership,
        wake: Callable[[], None],
        begin: Callable[[Mapping[str, Pool]], None] = lambda _pools: None,
    ) -> None:
        """Register the tables of the sources after the `listed` ones. These are in the configuration, and stay
        unchanged. `begin` starts the pools that come with another configuration.
        """
        self._listed = listed
        self._inquiries = [AskedSource(source=source) for source in sources]
        self._table_registry = state.tables
        self._membership = membership
        self._active_runs = state.active_runs
        self._threads = resources.threads
        self._listener = resources.listener
        self._wake = wake
        self._begin = begin
        self._left_out: Mapping[str, Mapping[str, str]] = {}
        self._offered: deque[tuple[Collection[Table], Sequence[Source] | None, Mapping[str, Pool]]] = deque()
        self._left_over: Sequence[Table] = ()
        self._held_at = float("-inf")
        self._retry_at = float("inf")
        self._clock = resources.clock
        self._again = False
        self._statuses: Sequence[SourceStatus] = ()

    def sources(self) -> Sequence[SourceStatus]:
        """Return every source with its last answer. For any thread."""
        return self._statuses

    def list_again(self) -> None:
        """Have every source listed now. For any thread."""
        self._again = True
        self._wake()

    def offer(self, listed: Collection[Table], sources: Sequence[Source] | None, pools: Mapping[str, Pool]) -> None:
        """Hand over other tables with entries of their own, other sources, and new pools. For any thread.

        None: the sources stay.
        """
        self._offered.append((listed, sources, pools))
        self._wake()

    def keep_up(self, now: float) -> None:
        """Ask the sources that are due, and apply the answers that are there."""
        news = self._take_over()
        if self._again:
            self._again = False
            for inquiry in self._inquiries:
                inquiry.due_at = float("-inf")
        if self._table_registry.held and now >= self._held_at:
            news, self._held_at = True, now + HELD_SECONDS
        changed = news
        for inquiry in self._inquiries:
            if inquiry.listing is None and now >= inquiry.due_at:
                inquiry.listing = self._threads.submit(inquiry.source.find, place=inquiry.source.name)
                inquiry.listing.add_done_callback(lambda _: self._wake())
                inquiry.asked_at, changed = self._clock.now(), True
            if inquiry.listing is not None and inquiry.listing.done():
                news = self._heard(inquiry, inquiry.listing, now) or news
                inquiry.listing, changed = None, True
        if self._left_over and all(inquiry.heard for inquiry in self._inquiries):
            self._left_over, news = (), True
        if news or now >= self._retry_at:
            self._retry_at = float("inf")
            try:
                self._go_by_what_was_found()
            except Exception:  # what is registered stays so, and the daemon goes on
                log.exception("discovery_not_applied")
                self._retry_at = now + AGAIN_AFTER.total_seconds()
        if news or changed:
            self._statuses = [
                inquiry.status(self._left_out.get(inquiry.source.name, {})) for inquiry in self._inquiries
            ]

    def _take_over(self) -> bool:
        """Go on with another configuration, if one was offered. Return whether there was one.

        Tables that only a former source has found stay until each new source has answered once.
        """
        offered = bool(self._offered)
        while self._offered:
            listed, sources, pools = self._offered.popleft()
            self._begin(pools)
            self._listed = listed
            if sources is None:
                continue
            by_name = {inquiry.source.name: inquiry for inquiry in self._inquiries}
            self._left_over = [
                *self._left_over,
                *(table for inquiry in self._inquiries for table in inquiry.found.tables),
            ]
            self._inquiries = [AskedSource(source=source) for source in sources]
            for inquiry in self._inquiries:
                if inquiry.source.name in by_name:
                    before = by_name[inquiry.source.name]
                    inquiry.found, inquiry.answered_at = replace(before.found, tables=()), before.answered_at
        return offered

    def _heard(self, inquiry: AskedSource, answer: Future[FoundTables], now: float) -> bool:
        """Apply an answer. Return whether the source answered. If a source says nothing about a table, it stays as it
        was.
        """
        every = inquiry.source.every
        inquiry.heard = True
        try:
            listing = answer.result()
        except Exception as error:  # noqa: BLE001 - the failure of one source must not stop the others or the daemon
            inquiry.failures += 1
            inquiry.due_at = now + min(every, AGAIN_AFTER).total_seconds()
            if inquiry.failures == 1:
                log.warning("discovery_failed", source=inquiry.source.name, error=str(error))
            inquiry.failure = str(error)
            self._listener.discovery_failed(inquiry.source.name, inquiry.failure)
            return False
        self._tell(inquiry, listing)
        ids = {table.id for table in listing.tables}
        untold = (table for table in inquiry.found.tables if table.id not in ids and not listing.tells_of(table.id))
        inquiry.found = replace(listing, tables=(*listing.tables, *untold))
        inquiry.failures, inquiry.failure, inquiry.answered_at = 0, None, self._clock.now()
        inquiry.due_at = now + every.total_seconds()
        return True

    def _tell(self, inquiry: AskedSource, listing: FoundTables) -> None:
        """Log what the previous answer did not say."""
        unlisted = {place: why for place, why in listing.unlisted.items() if place not in inquiry.found.unlisted}
        if unlisted:
            sample = dict(islice(unlisted.items(), _MOST_TOLD))
            log.warning("namespaces_not_listed", source=inquiry.source.name, number=len(unlisted), namespaces=sample)
        refused = {table: why for table, why in listing.refused.items() if table not in inquiry.found.refused}
        if refused:
            sample = dict(islice(refused.items(), _MOST_TOLD))
            log.warning("cannot_be_registered", source=inquiry.source.name, number=len(refused), tables=sample)

    def _go_by_what_was_found(self) -> None:
        before = {table.id: table for table in self._table_registry.values()}
        by_id = {table.id: table for table in self._tables()}
        # If an id now has another location or another format, that is another table. It is registered after the first
        # one has gone.
        stay = {id_: table for id_, table in before.items() if id_ in by_id and _is_same(by_id[id_], table)}
        changed = {id_ for id_, table in stay.items() if _settings(by_id[id_]) != _settings(table)}
        held = frozenset(id_ for id_ in changed if self._active_runs.of(id_))
        stay |= {id_: by_id[id_] for id_ in stay.keys() - held}
        # If a dropped table has a run, it stays until the run is settled, and no other run begins.
        ending = {id_: table for id_, table in before.items() if id_ not in stay and self._active_runs.of(id_)}
        stay |= ending
        taken = {by_place(table.location) for table in stay.values()}
        new = [table for table in by_id.values() if table.id not in before and by_place(table.location) not in taken]
        gone = before.keys() - stay.keys()
        self._table_registry.held = held | ending.keys()
        if not new and not gone and all(stay[id_] is before[id_] for id_ in stay):
            return
        if new or gone:
            log.info("discovered", new=sorted(table.id for table in new), gone=sorted(gone))
        self._table_registry.replace((*stay.values(), *new))
        anew = changed - held
        if new or gone:
            self._membership.tables_changed(gone=gone)
        if anew:
            log.info("settings_changed", tables=sorted(anew)[:_MOST_TOLD], number=len(anew))
            self._membership.settings_changed(anew)

    def _tables(self) -> Iterator[Table]:
        """Yield the tables to register. The first table gets its id, and its location with everything below it.

        The order is that of the configuration, not that of the answers. Within a source the registered tables come
        first.
        """
        ids: dict[TableId, str] = {}
        taken: dict[str, TableId] = {}
        around: set[str] = set()
        left_out: dict[str, dict[str, str]] = {}
        second: dict[str, tuple[str, Table]] = {}
        for source, table in self._with_sources():
            here = by_place(table.location)
            above = tuple(folders_above(here))
            inside = next((taken[place] for place in above if place in taken), None)
            if table.id in ids or here in taken:
                if source is not None and table.id in ids:
                    second.setdefault(here, (source, table))
                continue
            if inside is not None or here in around:
                why = f"inside of {inside}" if inside is not None else "around another table"
                left_out.setdefault(source or "", {})[table.id] = why
                continue
            ids[table.id] = table.location
            taken[here] = table.id
            around.update(above)
            yield table
        for here, (source, table) in second.items():
            if here not in taken:
                why = f"the table at {ids[table.id]} has its id: {_REMEDY}"
                left_out.setdefault(source, {})[f"{table.id} at {table.location}"] = why
        self._tell_left_out(left_out)

    def _with_sources(self) -> Iterator[tuple[str | None, Table]]:
        """Yield the tables with the names of their sources. Tables of the configuration and of former sources have
        none.
        """
        yield from ((None, table) for table in self._listed)
        for inquiry in self._inquiries:
            tables = sorted(inquiry.found.tables, key=self._is_new)
            yield from ((inquiry.source.name, table) for table in tables)
        yield from ((None, table) for table in self._left_over)

    def _tell_left_out(self, left_out: Mapping[str, Mapping[str, str]]) -> None:
        """Log what was not left out before, and show how many tables of each source are left out."""
        before = {table for tables in self._left_out.values() for table in tables}
        every = {table: why for tables in left_out.values() for table, why in tables.items()}
        if news := {table: why for table, why in every.items() if table not in before}:
            log.warning("cannot_be_registered", number=len(news), tables=dict(islice(news.items(), _MOST_TOLD)))
        self._left_out = left_out
        for inquiry in self._inquiries:
            if inquiry.heard and inquiry.failures == 0:
                refused = {**inquiry.found.refused, **left_out.get(inquiry.source.name, {})}
                self._listener.discovered(inquiry.source.name, replace(inquiry.found, refused=refused))

    def _is_new(self, table: Table) -> bool:
        entry = self._table_registry.get(table.id)
        return entry is None or entry.location != table.location


def _is_same(table: Table, other: Table) -> bool:
    return table.location == other.location and table.format == other.format


def _settings(table: Table) -> Table:
    """Return a table without what only people read of its file."""
    return replace(table, sources={}, file="", line=None)


# Sources of tables: what a catalog or a pattern of paths lists, with the settings that the configuration gives.


def sources_of(discover: Sequence[Discover], storages: Storages) -> Sequence[CatalogSource]:
    """Return one source for each catalog, and for each pattern of paths. One listing serves all patterns with the same
    catalog.
    """
    lists = dict.fromkeys(entry.catalog.name for entry in discover)
    return [CatalogSource(name, discover, storages) for name in lists]


class CatalogSource:
    """The tables that one listing shows. The first of all patterns that means a table gives its settings. For any
    thread.
    """

    def __init__(self, name: str, every_entry: Sequence[Discover], storages: Storages) -> None:
        """Take all patterns, in the order of the configuration. Some of them must be of the listing `name`."""
        self.name = name
        self._patterns = [entry.pattern for entry in every_entry]
        self._entries = {id(entry.pattern): entry for entry in every_entry}
        self._own = [entry for entry in every_entry if entry.catalog.name == name]
        self._first = self._own[0]
        self._storages = storages
        self._storage = storages.of(self._first.any_table.location)

    @property
    def every(self) -> timedelta:
        """Return how often the tables are listed: the shortest interval of the patterns."""
        return min(entry.every for entry in self._own)

    def find(self) -> FoundTables:
        """Return the tables by name, the namespaces that cannot be listed, and the tables that cannot be registered.

        Raises PermanentError and TemporaryError, as the format of the catalog does.
        """
        catalog = self._first.catalog
        listing = catalog.format.tables_in(catalog.name, catalog.settings, self._storage)
        tables, refused = [], dict(listing.refused)
        for identifier in sorted(listing.tables):
            location = listing.locations.get(identifier)
            id_ = self._first.id_of(identifier, location)
            pattern = fitting(self._patterns, id_, self._first.address_of(identifier, location))
            try:
                if pattern is not None:
                    table = _registrable(identifier, self._entries[id(pattern)], listing)
                    self._storages.require(table.location)
                    tables.append(table)
            except PermanentError as wrong:
                refused[identifier] = str(wrong)
        beginning = self._beginning()
        unlisted = {
            legal_beginning(f"{beginning}.{namespace}".strip(".")): why for namespace, why in listing.unlisted.items()
        }
        return FoundTables(tables=tables, unlisted=unlisted, refused=refused)

    def _beginning(self) -> str:
        """Return how the ids of the tables begin."""
        return dotted(self._first.pattern.paths[-1].root) if self._first.by_path else self.name


def _registrable(identifier: str, entry: Discover, listing: Listing) -> Table:
    """Return the table. Raises PermanentError if its settings contradict its name or the format."""
    table = entry.table(identifier, location=listing.locations.get(identifier))
    for wrong in entry.catalog.format.contradictions(table):
        if not wrong.blocks:
            raise PermanentError(f"{wrong.key} {wrong.reason}")
    return table
