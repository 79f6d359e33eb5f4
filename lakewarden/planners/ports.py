"""The contracts between planners and the outside: a storage that holds files, and a table format."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from lakewarden.planners.hooks import CommitHook
from lakewarden.planners.model.errors import PermanentError
from lakewarden.planners.model.instant import Instant, Service, Step
from lakewarden.planners.model.table import Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.settings import Settings
from lakewarden.planners.triggers import Trigger


@dataclass(frozen=True, kw_only=True, slots=True)
class FileEntry:
    """One entry of a listing: its name within the folder, its size in bytes, and the time of its last write.

    `version` is the store's name for this content (an ETag). It is empty if the store has none. Folders have no time of
    their own in object stores, so their time is the epoch.
    """

    name: str
    size: int
    modified: datetime
    is_folder: bool = False
    version: str = ""


MOST_ENTRIES = 100_000
"""How many entries of a folder of metadata are read. That is a thousand times what a well-kept table has."""

MOST_FILES = 1_000_000
"""How many entries of a folder of data are read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The identifiers (`namespace.table`) of a catalog's tables. `unlisted` are the namespaces that could not be listed
    this time, with their tables and all namespaces below, and the reason. The namespace with the empty name is the
    whole catalog.

    `locations` are the canonical locations of tables that are not known by their name in the catalog. `refused` are the
    things that look like a table and cannot be one, with the reason.
    """

    tables: Sequence[str] = ()
    unlisted: Mapping[str, str] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


class Storage(Protocol):
    """Reads files and lists folders below one location prefix. Locations are absolute, without a scheme for local
    paths. If a file or folder does not exist, FileNotFoundError is raised. Any other failure raises TemporaryError.
    """

    def stamp(self, location: str) -> str:
        """Return a text that changes when entries of the folder are added, removed or replaced. It takes one request.

        It may miss a change of content in place, and a change within one tick of the clock. Raises PermanentError if
        there are more than MOST_ENTRIES.
        """
        ...

    def changed_at(self, location: str) -> datetime | None:
        """Return when the folder's entries last changed. None if its stamp misses no change within a tick."""
        ...

    def version(self, location: str) -> str:
        """Return a text that changes when the file is replaced or written anew. It takes one request."""
        ...

    def listing(self, location: str, *, most: int = MOST_ENTRIES) -> Sequence[FileEntry]:
        """Return every entry of a folder with sizes and times, or raise an error. A partial listing is never returned.

        Raises PermanentError if there are more than `most`.
        """
        ...

    def entries(self, location: str) -> Iterator[FileEntry]:
        """Yield every entry of a folder, however many there are. An error ends it: then it was a part of the folder.

        It takes no more memory than the storage's client takes for the listing.
        """
        ...

    def present(self, location: str, names: Collection[str]) -> Collection[str]:
        """Return those of the names that a folder has: all of them, or an error. A folder that is missing has none.

        It takes time and memory for these names, and not for the folder.
        """
        ...

    def read(self, location: str, *, limit: int = 64 * 2**20) -> bytes:
        """Return a file's content. Raises PermanentError if it is larger than `limit` bytes."""
        ...

    def read_part(self, location: str, *, begin: int, size: int) -> bytes:
        """Return at most `size` bytes of a file from `begin` on. There are fewer at its end, and none beyond it."""
        ...


@runtime_checkable
class DeepListing(Protocol):
    """A storage that lists a folder with all below it in one go: an object store, which knows keys and no folders."""

    def each_below(self, location: str, take: Callable[[str, FileEntry], None]) -> None:
        """Give `take` every file below a folder, with its path below it, in the order of the paths. If it raises
        StopIteration, the listing ends.

        Raises FileNotFoundError where there is none, and what else `take` raises.
        """
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Versioned:
    """A file at one moment: its content, the storage's name for this version, and the time at which it was written, on
    the storage's own clock.
    """

    content: bytes
    version: str
    modified: datetime


class NoConditionsError(PermanentError):
    """The store ignores conditions. A writer there may overwrite what another one has just written."""


class ConditionalWrites(Protocol):
    """Writes small files below one location prefix, each on a condition. If several processes or machines race, one of
    them wins. No two writes of one file have the same content.

    If the condition does not hold, nothing is done, and None or False is returned. Raises TemporaryError if the outcome
    is not known, and NoConditionsError.
    """

    def versioned(self, location: str) -> Versioned | None:
        """Return the file. None if there is none."""
        ...

    def create(self, location: str, content: bytes) -> Versioned | None:
        """Write the file if there is none. Its folder is created, but no folder above that: then it raises
        FileNotFoundError.
        """
        ...

    def replace(self, location: str, content: bytes, *, version: str) -> Versioned | None:
        """Write the file if it still has this version."""
        ...

    def delete(self, location: str, *, version: str) -> bool:
        """Delete the file if it still has this version."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Observation:
    """The result of one observation: the token before it, the view, and the format's own memo.

    The format uses the memo to read only what is new the next time. No other code looks into it. Without a memo (None)
    the next observation reads everything again, and the view still shows what there was. A memo is `lasting` if it
    describes only files that never change. Then it is kept even if the table is read in full.

    An equal token vouches for the view only before `keep_until`. None means: for as long as it is equal. A token misses
    two things: a change within the same tick of the storage's clock, and a renewed heartbeat, which does not change the
    timeline. If a view has faults, or its newest change is too young, it must not be kept. Then the format sets
    `keep_until` to the time of the observation.
    """

    token: str
    view: TableView
    memo: Any = None
    lasting: bool = False
    keep_until: datetime | None = None

    def vouched_for(self, *, token: str, now: datetime) -> bool:
        """Whether the view is still valid, if `token` is the table's token `now`."""
        return token == self.token and (self.keep_until is None or now < self.keep_until)


class Syntax(StrEnum):
    """The form in which a writer's options are written down."""

    PROPERTIES = "properties"
    WITH_CLAUSE = "with_clause"


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterEngine:
    """A program that writes to a table, and the syntax of its options. `name` is its name in requests."""

    name: str
    syntax: Syntax = Syntax.PROPERTIES

    def __str__(self) -> str:
        return self.name


SPARK = WriterEngine(name="spark")
FLINK = WriterEngine(name="flink", syntax=Syntax.WITH_CLAUSE)


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterOption:
    """An option that a table's writer must set beside Lakewarden, and the reason in a few words.

    Options with the same reason that follow each other belong together. A key with leading dashes is a flag of the
    command line. `shared`: writers need it without Lakewarden, too, as long as several of them write. `optional`: it
    weakens a guarantee, so the owner of the writer decides.
    """

    key: str
    value: str
    why: str
    shared: bool = False
    optional: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Contradiction:
    """Settings of a table that contradict each other: the key to change, below the table, and the reason.

    If it `blocks` the table, the table can be observed with these settings, but nothing runs on it. Else the daemon
    refuses the configuration.
    """

    key: str
    reason: str
    blocks: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """How a folder shows that it is a table: it has this `folder`, with a file that has a name like `file`.

    Without `file` the folder is enough. Then a table with damaged metadata is found, too. `by_path`: the table can be
    opened by its path only with a file like this one. Otherwise a catalog alone knows its newest version.
    """

    folder: str
    file: re.Pattern[str] | None = None
    by_path: re.Pattern[str] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterDefaults:
    """What follows from the defaults of writers: options of a table, as a configuration has them, and remarks on what
    does not follow. A name of a table in braces stands for that of each table.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


class TableFormat(Protocol):
    """One lakehouse format. It turns metadata into a view. It starts no JVM, commits nothing and deletes nothing."""

    @property
    def name(self) -> str:
        """Return the name of the format in the configuration, the API and the metrics."""
        ...

    @property
    def table_options(self) -> type[Settings]:
        """Return the type of a table's options."""
        ...

    @property
    def catalog_settings(self) -> Any:
        """Return the type of a catalog's settings, for pydantic's TypeAdapter. None if the format has no catalogs."""
        ...

    def tables_in(self, catalog: str, settings: Any, storage: Storage) -> Listing:
        """Return the tables of the catalog with this name and these settings. A format without catalogs returns none.
        `storage` is the one for `catalog://` locations.

        If one namespace alone cannot be listed, the listing names it. Raises TemporaryError if the catalog does not
        answer, and PermanentError if its settings are wrong.
        """
        ...

    @property
    def services(self) -> Mapping[Service, type[Settings]]:
        """Return the supported services, each with the type of its policy's options."""
        ...

    @property
    def first_services(self) -> tuple[Service, ...]:
        """Return the services of a first configuration, and of a table without one. They need no option."""
        ...

    @property
    def sign(self) -> Sign | None:
        """Return how its tables are recognised. None if nothing tells them from any other folder."""
        ...

    @property
    def trigger_strategies(self) -> Mapping[str, Callable[[Any], Trigger]]:
        """Return the format's own names of triggers, each with the reader of its argument (None if it has no
        argument).
        """
        ...

    @property
    def commit_hook(self) -> CommitHook | None:
        """Return how commits to the format's tables are announced to Lakewarden. None if its writers announce none."""
        ...

    def contradictions(self, table: Table) -> Sequence[Contradiction]:
        """Return the settings of a table that contradict each other. Pure."""
        ...

    def shared_name(self, catalog: str, settings: Any, identifier: str) -> str:
        """Return an address that is the same for every address of a catalog's table, as far as the catalog's settings
        tell. If they tell its folder, that is the address. Pure.

        Raises PermanentError if tables of the format are not known by their names in a catalog.
        """
        ...

    def as_found(self, table: Table, identifier: str) -> Table:
        """Return a table that its catalog knows as `identifier`, with the consequences for its policies. Pure."""
        ...

    @property
    def writer_engines(self) -> tuple[WriterEngine, ...]:
        """Return the programs that write tables of the format, the most usual first."""
        ...

    def writer_options(
        self, table: Table, *, engine: WriterEngine, hook_url: str, lock_held: timedelta | None = None
    ) -> Sequence[WriterOption]:
        """Return exactly the options that a writer of the table must set beside Lakewarden.

        Pure. `engine` is one of `writer_engines`. Commits are announced at `hook_url`. `lock_held` is the longest time
        for which the table's lock was held. None before the first run. Raises PermanentError if the table's settings do
        not say how writers and Lakewarden are kept apart.
        """
        ...

    def token(self, table: Table, storage: Storage) -> str:
        """Return a text that changes when the table's metadata changes. It takes at most two requests, whatever the
        size of the table.

        Raises PermanentError if the location holds no table of this format.
        """
        ...

    def observe(self, table: Table, storage: Storage, previous: Observation | None, *, now: datetime) -> Observation:
        """Return the observation of the table. It reads only what `previous` does not hold. The view of `previous` may
        be without its backlogs.

        The token is read before the listing, so that the next poll sees a change during the observation. It is a fault
        if the listing leaves out an entry that the previous view shows and that still exists. Raises PermanentError if
        the location holds no table of this format, and TemporaryError if it cannot be read. A single instant that
        cannot be read does not raise: it is one of the view's `faults`.
        """
        ...

    def endangered(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> tuple[Instant, ...]:
        """Return the writes in flight that would fail if `service` took `step` now (plan, execute, commit).

        Pure. For the plan step `instant` is None.
        """
        ...

    def awaited(self, view: TableView, service: Service, *, step: Step, instant: str | None) -> str | None:
        """Return in words what `service` should wait for before it takes `step`, although no write in flight would fail
        now. None if it need not wait. The wait is bounded. Pure.
        """
        ...


@runtime_checkable
class HearsOfFolders(Protocol):
    """A format without a timeline. A hook may name the folder of a table in which something has changed."""

    def heard(self, location: str, folder: str) -> None:
        """Look at a folder with the next observation of the table at `location`. `folder` is a path below it, or empty.

        Any thread may call it.
        """
        ...


@runtime_checkable
class ReadsWriterDefaults(Protocol):
    """A format that has one file with the defaults of all its writers."""

    def defaults_file(self, environment: Mapping[str, str]) -> Path:
        """Return where writers on this machine have the file."""
        ...

    def options_from(self, defaults: bytes) -> WriterDefaults:
        """Return the options of a table that follow from the file. What the file says and cannot be an option is a
        remark: nothing is left out silently. Pure.
        """
        ...


@runtime_checkable
class KeepsCommits(Protocol):
    """A format with policies that say how many commits are kept."""

    def keeping(self, commits: int) -> Mapping[Service, Mapping[str, Any]]:
        """Return the options of services with which so many commits are kept, as a configuration has them. Pure."""
        ...
