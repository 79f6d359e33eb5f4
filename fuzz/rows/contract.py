"""What a format contributes: how tables of it are drawn, written and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol, runtime_checkable

from fuzz.rows.program import Act

Rows = Counter[tuple[Any, ...]]
"""Rows with their number. So a row that is there twice is seen."""


class NotNow(Exception):  # noqa: N818 - no error: the act has no meaning here, as after acts were left out
    """An act cannot be done now, or a writer is refused as it is documented. The act is skipped, and counted."""


class UnreadableError(Exception):
    """A reader cannot read a table of this kind. It is skipped, and counted by the message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What one reader must find: a snapshot, an older one, or an incremental read."""

    by: str
    find: Callable[[], Rows]
    expected: Rows


class FuzzedTable(Protocol):
    """One table, its writers, and their record of what they were told (the oracle)."""

    @property
    def location(self) -> str:
        """Return its canonical location."""
        ...

    @property
    def catalog(self) -> Mapping[str, Any] | None:
        """Return the settings of its catalog as an assignment has them. None: it is found by its path."""
        ...

    @property
    def options(self) -> Mapping[str, Any]:
        """Return its options in a configuration."""
        ...

    def do(self, act: Act) -> None:
        """Do an act of a writer. Raises NotNow. Any other exception is a fault: a writer must not fail."""
        ...

    def looks(self) -> Iterable[Look]:
        """Return what readers must find now. Their calls may raise UnreadableError."""
        ...


@runtime_checkable
class SeesHeldRuns(Protocol):
    """A table that need not keep all rows, as one with a ttl, but must keep what is written after a plan."""

    def held(self, *, is_held: bool) -> None:
        """Note that a run of ours has made its plan and is held, or that it has ended."""
        ...


class RowsFormat(Protocol):
    """One format. It draws programs without Spark."""

    @property
    def name(self) -> str:
        """Return its name in the configuration."""
        ...

    @property
    def spark(self) -> Mapping[str, str]:
        """Return the Spark configuration that its writers need besides (SQL extensions, catalogs)."""
        ...

    @property
    def services(self) -> frozenset[str]:
        """Return the services that must succeed now and then in a long run."""
        ...

    def draw(self, chance: Random) -> tuple[Mapping[str, Any], Sequence[Act]]:
        """Return the kind of a table, and acts."""
        ...

    def make(self, kind: Mapping[str, Any], folder: Path, session: Any) -> FuzzedTable:
        """Return a table of this kind, to be made below an empty folder by the first write. The SparkSession is its
        own.
        """
        ...
