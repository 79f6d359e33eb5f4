"""What a format contributes to the demo: its table, writer and reader, what is counted, and the services that
it shows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lakewarden.demo.daemon import ZooKeeper
from lakewarden.demo.reader import TableRows


class Processes(Protocol):
    """The processes beside the table."""

    @property
    def table(self) -> Path:
        """The folder of the table's files. It may not exist yet."""
        ...

    def start_zookeeper(self) -> ZooKeeper:
        """Start the lock service of the table."""
        ...


class Progress(Protocol):
    """The display of the demo while it waits."""

    def watch(self, phase: str, *, until: Callable[[Any], bool], at_most: float) -> object:
        """Show the state until a condition is true. Raises TemporaryError if it is not true after `at_most` seconds."""
        ...


class FormatDemo(Protocol):
    """One format's part. All its files lie below the demo's `directory`."""

    @property
    def format(self) -> str:
        """The format's name in the configuration."""
        ...

    @property
    def services(self) -> Mapping[str, Any]:
        """The policies of the demo, as the configuration writes them."""
        ...

    @property
    def promised(self) -> Sequence[str]:
        """The services that must succeed in the demo."""
        ...

    @property
    def counted(self) -> Mapping[str, str]:
        """What is counted, by its name in the report, in words. The reader counts it (`TableRows.counted`), or it is
        counted on the disk.
        """
        ...

    @property
    def to_merge(self) -> str:
        """The name of the count of files that a query must merge. Compaction brings it to zero."""
        ...

    @property
    def writer(self) -> str:
        """The module of the writer, which creates the table."""
        ...

    @property
    def reader(self) -> str:
        """The module of the reader. It shares no code with the writer or the services."""
        ...

    def folder(self, directory: Path) -> Path:
        """Return the folder of the table's files."""
        ...

    def prepare(self, processes: Processes, progress: Progress) -> Mapping[str, Any]:
        """Start the processes that the table needs. Return the table's entry in the configuration, without its
        services.
        """
        ...

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return the further settings of the configuration."""
        ...

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments that name the table."""
        ...

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return the reader's arguments that name the table."""
        ...

    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as the reader reads them. Raises any error of the foreign reader."""
        ...

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the counts that are taken on the disk."""
        ...
