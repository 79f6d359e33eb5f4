"""What a format contributes to the demo: its table, writer and reader, what is counted, and the services that
it shows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lakewarden.demo.reader import TableRows


class FormatDemo(ABC):
    """One format's part. All its files lie below the demo's `directory`. Its writer and its reader are told the folder
    of the table, unless it says otherwise.
    """

    format: str
    """The format's name in the configuration."""

    services: Mapping[str, Any]
    """The policies of the demo, as the configuration writes them."""

    promised: Sequence[str]
    """The services that must succeed in the demo."""

    counted: Mapping[str, str]
    """What is counted, by its name in the report, in words. The reader counts it (`TableRows.counted`), or it is
    counted on the disk."""

    to_merge: str
    """The name of the count of files that a query must merge. Compaction brings it to zero."""

    writer: str
    """The module of the writer, which creates the table."""

    reader: str
    """The module of the reader. It shares no code with the writer or the services."""

    @abstractmethod
    def folder(self, directory: Path) -> Path:
        """Return the folder of the table's files."""

    @abstractmethod
    def entry(self, table: Path, start_zookeeper: Callable[[], str]) -> Mapping[str, Any]:
        """Return the entry of the table in this folder in the configuration, without its services. `start_zookeeper`
        starts a lock service for it, and returns its address when it answers.
        """

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return the further settings of the configuration."""
        return {}

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments that name the table."""
        return ("--path", str(self.folder(directory)))

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return the reader's arguments that name the table."""
        return ("--path", str(self.folder(directory)))

    @abstractmethod
    def read(self, directory: Path) -> TableRows:
        """Return the table's rows, as the reader reads them. Raises any error of the foreign reader."""

    @abstractmethod
    def count_stored(self, directory: Path) -> Mapping[str, int]:
        """Return the counts that are taken on the disk."""
