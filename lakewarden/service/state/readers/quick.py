"""Tables of local and mounted disks are read one after the other, each by the same process time after time."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import datetime

from lakewarden.planners.reading.looks import LookAsked
from lakewarden.service.state.readers.child import Child
from lakewarden.service.state.readers.children import Children


class QuickLane:
    """A fixed number of places for processes, each with its own tables."""

    def __init__(self, children: Children, *, size: int, patience: float) -> None:
        """Have `size` processes; a look that takes longer than `patience` seconds is no quick one."""
        self._children = children
        self._places: list[Child | None] = [None] * size
        self._patience = patience

    def ask(self, looks: Sequence[LookAsked], *, now: datetime) -> list[LookAsked]:
        """Let their processes make looks; return those for which there is none."""
        by_place: dict[int, list[LookAsked]] = {}
        for asked in looks:
            by_place.setdefault(zlib.crc32(asked.table.id.encode()) % len(self._places), []).append(asked)
        left = []
        for place, those in by_place.items():
            child = self._places[place] = self._places[place] or self._children.start(threads=1)
            if child is None:
                left += those
            else:
                child.ask(those, now=now)
        return left

    def stuck(self) -> list[Child]:
        """Return the processes that are at one look for too long."""
        return [child for child in self._processes() if any(age > self._patience for _, age in child.under_way())]

    def leave(self, child: Child) -> bool:
        """Let a process serve here no longer; return whether it did."""
        if child not in self._places:
            return False
        self._places[self._places.index(child)] = None
        return True

    def _processes(self) -> list[Child]:
        return [child for child in self._places if child is not None]
