"""What a format brings to a performance: its table, writer and reader, what is counted, and the services it shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from lakewarden.demo.reader import Snapshot
from lakewarden.demo.zookeeper import ZooKeeper


class Processes(Protocol):
    """What runs beside the table."""

    @property
    def table(self) -> Path:
        """Where the table's files are going to be."""
        ...

    def start_zookeeper(self) -> ZooKeeper:
        """Start the lock service of the table."""
        ...


class Progress(Protocol):
    """What a person sees meanwhile."""

    def watch(self, act: str, *, until: Callable[[Any], bool], at_most: float) -> object:
        """Show what happens until something is true. Raises TemporaryError if it is not after `at_most` seconds."""
        ...


class FormatDemo(Protocol):
    """One format's part. All that it makes lies below the performance's `directory`."""

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
        """The services of which the demo must see a success."""
        ...

    @property
    def counted(self) -> Mapping[str, str]:
        """What is counted, by its name in the report, in words: by the reader (`Snapshot.counted`) or on the disk."""
        ...

    @property
    def to_merge(self) -> str:
        """The name of that which a query has to merge, and which compaction brings to nothing."""
        ...

    @property
    def writer(self) -> str:
        """The module of the writer, which makes the table."""
        ...

    @property
    def reader(self) -> str:
        """The module of the reader, which shares no code with what wrote or serviced the table."""
        ...

    def folder(self, directory: Path) -> Path:
        """Return where the table's files are going to be."""
        ...

    def prepare(self, processes: Processes, progress: Progress) -> Mapping[str, Any]:
        """Start what the table needs beside it, and return its entry in the configuration, but for its services."""
        ...

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return what else the configuration says."""
        ...

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return how the writer is told of the table."""
        ...

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return how the reader is told of the table."""
        ...

    def read(self, directory: Path) -> Snapshot:
        """Return the table's rows, as the reader reads them. Raises whatever a foreign reader raises."""
        ...

    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return what is counted on the disk."""
        ...
