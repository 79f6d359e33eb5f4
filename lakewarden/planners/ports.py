"""The contracts that planners ask of the outside: a place that holds files, and a table format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol

from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One entry of a listing: its name within the folder, its size in bytes, when it was last written.

    `version` is what the store calls this content (an ETag); empty where it does not say. Folders have no time of
    their own in object stores: theirs is the epoch.
    """

    name: str
    size: int
    modified: datetime
    is_folder: bool = False
    version: str = ""


MOST_ENTRIES = 100_000
"""How many entries of a folder of metadata are taken in: a thousand times what a table has that is kept in order."""

MOST_FILES = 1_000_000
"""How many entries of a folder of data are taken in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The identifiers (`namespace.table`) of a catalog's tables, and why the tables of some namespaces, and of those
    below them, could not be told this time; the namespace without a name is the whole catalog.

    `locations` are the canonical locations of tables that are not known by their name in the catalog, and `refused`
    what might be a table, by whatever tells it, and why it cannot be one of these.
    """

    tables: Sequence[str] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


class Storage(Protocol):
    """Reads files and lists folders below one location prefix. Locations are absolute, without a scheme for
    local paths. A missing thing raises FileNotFoundError; any other trouble raises TemporaryError.
    """

    def stamp(self, location: str) -> str:
        """Return a text that changes when entries of the folder come, go or are replaced: one request.

        It may miss changes of content in place and changes within one tick of the clock behind it.
        Raises PermanentError if there are more than MOST_ENTRIES.
        """
        ...

    def changed_at(self, location: str) -> datetime | None:
        """Return when the folder's entries last changed; None where its stamp misses no change within a tick."""
        ...

    def version(self, location: str) -> str:
        """Return a text that changes when the file is replaced or written anew: one request."""
        ...

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return every entry of a folder, whole or not at all, with sizes and times.

        Raises PermanentError if there are more than `most`.
        """
        ...

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return a file's content. Raises PermanentError if it is larger than `limit` bytes."""
        ...

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return at most `size` bytes of a file from the place `begin` on: fewer only at its end, none beyond it."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Versioned:
    """A file as it was at one moment: its content, what its storage calls this version of it, and when it was written,
    on the storage's own clock.
    """

    content: bytes
    version: str
    modified: datetime


class NoConditionsError(PermanentError):
    """The store takes no notice of conditions: whoever writes there may overwrite what another has just written."""


class ConditionalWrites(Protocol):
    """Writes small files below one location prefix, each on a condition: of all who race for it, in whatever process
    or machine, one wins. No two writes of one file have the same content.

    Nothing is done, and None or False returned, where the condition does not hold. Raises TemporaryError where it is
    not known what was done, and NoConditionsError.
    """

    def versioned(self, location: str) -> Versioned | None:
        """Return the file as it is; None where there is none."""
        ...

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none. Its folder is made, but no folder above that: FileNotFoundError."""
        ...

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        """Write the file if it is still of this version."""
        ...

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it is still of this version."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """What one look at a table brought: the token it was taken under, the view, and the format's own memo.

    The memo is what the format needs to read only what is new the next time; nobody else looks into it. Without one
    (None) everything is read anew, and the view still tells what there was. It is `lasting` where it tells of nothing
    but files that never change: then it is kept when the table is read in full.

    An equal token vouches for the view only before `keep_until` (None: for as long as it is equal), because two
    things escape a token: a change within the same tick of the storage's clock as the one it saw, and a heartbeat,
    which is renewed without its timeline changing. A format sets `keep_until` to the time it was observed where
    the view must not be kept at all: it has faults, or its newest change is too young.
    """

    token: str
    view: TableView
    memo: Any = None
    lasting: bool = False
    keep_until: datetime | None = None

    def vouched_for(self, *, token: str, now: datetime) -> bool:
        """Whether the view still stands, if `token` is the table's token `now`."""
        return token == self.token and (self.keep_until is None or now < self.keep_until)


class WriterEngine(StrEnum):
    """What writes to a table; `streamer` is Hudi Streamer."""

    SPARK = "spark"
    FLINK = "flink"
    STREAMER = "streamer"


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterOption:
    """An option that a table's writer must set beside Lakewarden, and why, in a few words.

    Neighbours with the same reason belong together. A key with leading dashes is a flag of the command line.
    """

    key: str
    value: str
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Settings of a table that cannot hold together: the key to change, below the table, and why.

    `holds_back`: the table can be looked at with them, but nothing runs on it; else the daemon refuses them.
    """

    key: str
    reason: str
    holds_back: bool = False


class TableFormat(Protocol):
    """One lakehouse format: metadata in, TableView out. No JVM, no commits, no deletes.

    `services` are the table services it supports with the type of their options; `table_options` is the type
    of the options of a table, `catalog_settings` that of the catalogs that its tables may be found in.
    """

    @property
    def name(self) -> str:
        """Return the format's word in config, API and metrics."""
        ...

    @property
    def table_options(self) -> type[Settings]:
        """Return the type of a table's options."""
        ...

    @property
    def catalog_settings(self) -> Any:
        """Return the type of a catalog's settings (what pydantic's TypeAdapter takes); None if the format has none."""
        ...

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return the tables that the catalog of this name and these settings knows; none for a format without
        catalogs. `storage` is the one of `catalog://` locations.

        A namespace that alone cannot be listed is named in the listing. Raises TemporaryError where the catalog does
        not answer, PermanentError where its settings are wrong.
        """
        ...

    @property
    def services(self) -> Mapping[Service, type[Settings]]:
        """Return the supported services, each with the type of its policy's options."""
        ...

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return what cannot be right of a table's settings, taken together. Pure."""
        ...

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return the address that a table of a catalog has in common with every other address of it, as far as the
        catalog's settings tell: the address of its folder, where they say which it is. Pure.

        Raises PermanentError where tables of the format are not known by their names in a catalog.
        """
        ...

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return a table that its catalog knows as `identifier`, with what follows from that for its policies. Pure."""
        ...

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, worst_hold: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return exactly what a writer of the table must set beside Lakewarden.

        Pure. Commits are announced at `hook_url`; `worst_hold` is the longest time for which we were seen to hold
        the table's lock. Raises PermanentError where the table's settings leave open how writers are kept apart.
        """
        ...

    def claim_location(self, table: Table) -> str | None:
        """Return where a claim of the table may lie that no client of the format minds, and that no token shows when
        it is renewed; None where the format's own commits keep two executors apart. Pure.
        """
        ...

    def token(self, table: Table, storage: Storage) -> str:
        """Return a text that changes when the table's metadata changes: O(1), at most two requests.

        Raises PermanentError if the location holds no table of this format.
        """
        ...

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the table's view, reading only what `previous` does not already hold.

        The token is read before the listing, so that a change during the reading is seen the next time. A listing
        that leaves out what the previous view shows, and what is there, is a fault.
        Raises PermanentError if the location holds no table of this format, TemporaryError if it cannot be read.
        Single unreadable instants do not raise: they are the view's `faults`.
        """
        ...

    def endangered(self, view: TableView, service: Service, *, step: str, instant: str | None) -> tuple[Instant, ...]:
        """Return the writes in flight that would fail if `service` now took `step` (plan, execute, commit).

        Pure. For the plan step `instant` is None.
        """
        ...

    def awaited(self, view: TableView, service: Service, *, step: str, instant: str | None) -> str | None:
        """Return, for people, what `service` had better wait for before it takes `step` although no write in flight
        would fail by it now; None if nothing. It waits for a bounded time. Pure.
        """
        ...
