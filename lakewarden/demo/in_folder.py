"""What the demos have in common whose table is a folder: it is named by its path, and needs no more settings."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class TableInFolder:
    """A part of `FormatDemo`."""

    @abstractmethod
    def folder(self, directory: Path) -> Path:
        """Return the folder of the table."""

    def settings(self, directory: Path) -> Mapping[str, Any]:
        """Return nothing: the table's entry is enough."""
        return {}

    def writer_arguments(self, directory: Path) -> Sequence[str]:
        """Return the writer's arguments that name the table."""
        return ("--path", str(self.folder(directory)))

    def reader_arguments(self, directory: Path) -> Sequence[str]:
        """Return the reader's arguments that name the table."""
        return ("--path", str(self.folder(directory)))
