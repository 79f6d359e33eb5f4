"""Tables of local and mounted disks are read one after the other, each always by the same process."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from datetime import datetime

from lakewarden.planners.reading.observing import ObservationRequest
from lakewarden.service.state.readers.child import ReaderProcess
from lakewarden.service.state.readers.children import Children


class QuickLane:
    """A fixed number of places for processes, each with its own tables."""

    def __init__(self, children: Children, *, size: int, timeout: float) -> None:
        """Have `size` processes. An observation that takes longer than `timeout` seconds is not quick."""
        self._children = children
        self._places: list[ReaderProcess | None] = [None] * size
        self._timeout = timeout

    def ask(self, requests: Sequence[ObservationRequest], *, now: datetime) -> list[ObservationRequest]:
        """Send requests to their processes. Return those for which there is no process."""
        by_place: dict[int, list[ObservationRequest]] = {}
        for asked in requests:
            by_place.setdefault(zlib.crc32(asked.table.id.encode()) % len(self._places), []).append(asked)
        left = []
        for place, those in by_place.items():
            child = self._places[place] = self._places[place] or self._children.start(threads=1)
            if child is None:
                left += those
            else:
                child.ask(those, now=now)
        return left

    def stuck(self) -> list[ReaderProcess]:
        """Return the processes that need too long for one observation."""
        return [child for child in self._processes() if any(age > self._timeout for _, age in child.under_way())]

    def leave(self, child: ReaderProcess) -> bool:
        """Remove a process from this lane. Return whether it was in it."""
        if child not in self._places:
            return False
        self._places[self._places.index(child)] = None
        return True

    def _processes(self) -> list[ReaderProcess]:
        return [child for child in self._places if child is not None]
