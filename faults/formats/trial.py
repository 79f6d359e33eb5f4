"""What a format contributes to a trial."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from faults.checking.history import History, StoredRun
from faults.injection.schedule import Targets
from lakewarden.demo.daemon import Child, DaemonProcess
from lakewarden.demo.environment import Environment
from lakewarden.demo.format_demo import FormatDemo
from lakewarden.demo.writers.orders import Batch
from lakewarden.planners.model.instant import Service

Wait = Callable[[Callable[[], bool], str], None]
"""Waits until a condition is true. Raises TemporaryError with the sentence if it is not true in time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveWriter:
    """A writer that was started, with the name by which its record is kept."""

    name: str
    process: Child
    record: Path


class Pending(NamedTuple):
    """A plan of one of our services that is not carried out."""

    instant: str
    service: Service


class FormatTrial(Protocol):
    """One format's part of one trial. It may keep what it has seen during the trial."""

    @property
    def format_demo(self) -> FormatDemo:
        """Where the table is, and the settings with which a daemon finds it."""
        ...

    @property
    def policies(self) -> Mapping[str, Any]:
        """The policies, as the configuration writes them: every service that runs by itself, as often as it can."""
        ...

    @property
    def targets(self) -> Targets:
        """The services and the points of their runs that faults hit."""
        ...

    @property
    def most_writers(self) -> int:
        """How many live writers there can be."""
        ...

    def fetch(self) -> None:
        """Download all jars that the trial needs."""
        ...

    def table_entry(self, environment: Environment, wait: Wait) -> Mapping[str, Any]:
        """Start the processes that the table needs. Return the table's entry in the configuration, without its
        services.
        """
        ...

    def start_writers(
        self, environment: Environment, daemon: DaemonProcess, *, seed: int, writers: int
    ) -> Iterator[LiveWriter]:
        """Start writers with the options that the daemon prints, one after another. The next one is started when the
        last one has committed.
        """
        ...

    def counts_against_us(self, failed: Batch) -> bool:
        """Whether a failed commit of a writer counts. It does not if the writer lost to another writer."""
        ...

    def pending(self, environment: Environment) -> Collection[Pending]:
        """Return the pending plans of our services. Plans of writers are left out. Empty if there is no table yet."""
        ...

    def make_work(self, environment: Environment) -> None:
        """Leave work for the services that the writers do not leave. It is called several times a second."""
        ...

    def left_over(self, environment: Environment) -> Sequence[str]:
        """Return what else must be done before the daemon has finished everything, besides runs and plans."""
        ...

    def gather(
        self, environment: Environment, *, records: Mapping[str, Path], runs: Sequence[StoredRun], witness: Path
    ) -> History:
        """Return the history of the table after its writers and its daemon have ended. `records` are by the writers'
        names. Raises the errors of an unreadable table.
        """
        ...
