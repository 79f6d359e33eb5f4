"""What a survey says of a table, in files and bytes that mean the same for every format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from lakewarden.planners.model.instant import Service
from lakewarden.planners.model.table import Policy, Table
from lakewarden.planners.model.view import TableView
from lakewarden.planners.ports import Storage

MOST_FILES = 300_000
"""How many files below a table are looked at. Of a larger table the figures are those of the first ones."""

YOUNG = timedelta(days=1)
"""A file that no version knows may belong to a write in flight. It counts as an orphan when it is older than this."""


class Amount(NamedTuple):
    """Files, and their bytes."""

    files: int = 0
    bytes: int = 0

    def plus(self, other: Amount) -> Amount:
        """Return the sum."""
        return Amount(self.files + other.files, self.bytes + other.bytes)


NO_FILES = Amount()


class Rewrite(NamedTuple):
    """What a service would read and write anew: so many files and bytes, which become `after` files."""

    files: int = 0
    bytes: int = 0
    after: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Contents:
    """The files of a table at one moment.

    - `live` are the data files of the newest version, without `deltas`. `small` are those of them that the format's
      own planner calls small.
    - `deltas` are the files that readers have to merge: log files, delete files, files of level 0.
    - `old` are the files that only older versions need. `unknown` are those that no version knows, if they are older
      than a day. None if that was not compared.
    - `metadata` are the files of the format itself.
    - `versions` are the commits or snapshots that the table keeps.
    - `rewrites` and `deletes` are what services would rewrite and delete if they ran now.
    - `notes` are limits of these figures, one sentence each.
    """

    live: Amount = NO_FILES
    small: Amount = NO_FILES
    deltas: Amount = NO_FILES
    old: Amount | None = None
    unknown: Amount | None = None
    metadata: Amount = NO_FILES
    versions: int = 0
    rewrites: Mapping[Service, Rewrite] = field(default_factory=dict)
    deletes: Mapping[Service, Amount] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """The view of a table, and its contents."""

    view: TableView
    contents: Contents


@dataclass(frozen=True, kw_only=True, slots=True)
class Sign:
    """How a folder shows that it is a table: it has this `folder`, with a file that has a name like `file`.

    Without `file` the folder is enough. Then a table with damaged metadata is found, too.
    """

    folder: str
    file: re.Pattern[str] | None = None


class Surveyor(Protocol):
    """Surveys the tables of one format. It reads, and changes nothing."""

    @property
    def sign(self) -> Sign | None:
        """Return how its tables are recognised. None if nothing tells them from any other folder."""
        ...

    @property
    def policies(self) -> Mapping[Service, Policy]:
        """Return the policies by which a survey judges: the triggers of the example configuration, and the default
        options.
        """
        ...

    def survey(self, table: Table, storage: Storage, *, now: datetime) -> Survey:
        """Return the survey of a table. Raises what observing the table raises."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterDefaults:
    """What follows from the defaults of writers: options of a table, as a configuration has them, and remarks on what
    does not follow. A name of a table in braces stands for that of each table.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@runtime_checkable
class ReadsWriterDefaults(Protocol):
    """A surveyor of a format that has one file with the defaults of all its writers."""

    def defaults_file(self, environment: Mapping[str, str]) -> Path:
        """Return where writers on this machine have the file."""
        ...

    def options_from(self, defaults: bytes) -> WriterDefaults:
        """Return the options of a table that follow from the file. What the file says and cannot be an option is a
        remark: nothing is left out silently. Pure.
        """
        ...

    def options_of(self, properties: Mapping[str, str]) -> WriterDefaults:
        """Return the options of a table that follow from those of its writers, in the same way. Pure."""
        ...


@runtime_checkable
class ReadsRetention(Protocol):
    """A surveyor of a format with cleans that say how much they keep."""

    def kept_by_newest_clean(self, table: Table, storage: Storage, *, now: datetime) -> int | None:
        """Return how many commits the newest clean of a table kept, if it kept more than the default policy would.

        Raises what observing the table raises.
        """
        ...

    def keeping(self, commits: int) -> Mapping[Service, Mapping[str, Any]]:
        """Return the options of services with which so many commits are kept, as a configuration has them. Pure."""
        ...
