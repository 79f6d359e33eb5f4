"""A writer that leaves files as Flink's filesystem sink does on a disk: in progress, pending, and finished by a rename
when a checkpoint is complete. Run against PyFlink 1.20.5: the names are those that it left.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from uuid import UUID, uuid5

from lakewarden.planners.model.clock import Clock

_SPACE = UUID("00000000-0000-0000-0000-000000000016")


@dataclass
class Part:
    """One part: the file that it is now, and its final name. `pending` when it is closed."""

    file: Path
    final: Path
    pending: bool = False


@dataclass
class FlinkSink:
    """One subtask. Its files and their folders have the clock's times, as the disk's own clock would give them."""

    folder: Path
    clock: Clock
    rows: int = 0
    parts: dict[str, Part] = field(default_factory=dict)
    pending: list[Part] = field(default_factory=list)
    _count: int = 0

    def write(self, partition: str, rows: int = 1) -> None:
        """Write rows into a partition: into its open part, or into a new one."""
        part = self.parts.get(partition)
        if part is None:
            self._count += 1
            name = f"part-{uuid5(_SPACE, str(self.folder))}-0-{self._count}"
            home = self.folder / partition
            home.mkdir(parents=True, exist_ok=True)
            hidden = home / f".{name}.inprogress.{uuid5(_SPACE, name)}"
            part = self.parts[partition] = Part(file=hidden, final=home / name)
            hidden.touch()
            self.touch(home)
        with part.file.open("ab") as file:
            file.write(b"row\n" * rows)
        self.rows += rows
        self.touch(part.file)

    def checkpoint(self) -> None:
        """Begin a checkpoint: every open part is closed, and waits for its end."""
        for part in self.parts.values():
            part.pending = True
        self.pending += self.parts.values()
        self.parts = {}

    def complete(self) -> None:
        """End the checkpoint: what is pending gets its name. A rename keeps the time of the file."""
        for part in self.pending:
            part.file.rename(part.final)
            self.touch(part.final.parent)
        self.pending = []

    def busy(self) -> set[str]:
        """Return the partitions with a part in progress or pending."""
        parts = [*self.parts.values(), *self.pending]
        return {str(part.final.parent.relative_to(self.folder)) for part in parts}

    def touch(self, path: Path, at: datetime | None = None) -> None:
        """Give a file or a folder the clock's time."""
        moment = (at or self.clock.now()).timestamp()
        os.utime(path, (moment, moment))
