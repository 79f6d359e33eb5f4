"""A page of memory that the daemon shares with a reader process. It shows what each thread of the process is doing,
without messages.

An observation that hangs sends nothing. And a message at the begin of each observation would cost more than that
observation.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

_CELL = struct.Struct("@Qd")
_TICKET = struct.Struct("@Q")
_AT = struct.Struct("@d")


class Begun(NamedTuple):
    """An observation that has begun, and when, in seconds of the machine's clock."""

    ticket: int
    at: float


class Board:
    """The page: one cell for each thread, and the lowest ticket that is still wanted."""

    def __init__(self, file: int, *, threads: int) -> None:
        """Map the page. `file` is the descriptor of the shared memory. It may be closed afterwards."""
        self._threads = threads
        self._page = mmap.mmap(file, _size(threads))

    def begin(self, thread: int, ticket: int, at: float) -> None:
        """Note which observation a thread begins, and when.

        The daemon may read between two writes. So the moment is written before the ticket that makes it count: a ticket
        never has a moment that is too early, and no table is given up that was begun just now.
        """
        _AT.pack_into(self._page, self._cell(thread) + _TICKET.size, at)
        _TICKET.pack_into(self._page, self._cell(thread), ticket)

    def end(self, thread: int) -> None:
        """Note that a thread has no observation."""
        _TICKET.pack_into(self._page, self._cell(thread), 0)

    def under_way(self) -> list[Begun]:
        """Return the observations of the threads.

        A thread may begin another one between two reads. So a moment counts only if the same ticket stands beside it
        before and after: Python clears a field before it writes it.
        """
        cells = [self._cell(thread) for thread in range(self._threads)]
        readings = [(self._ticket(cell), self._at(cell), self._ticket(cell)) for cell in cells]
        return [Begun(ticket, at) for ticket, at, still in readings if ticket and ticket == still]

    def skip_before(self, ticket: int) -> None:
        """Note that observations with a smaller ticket need not begin any more."""
        _TICKET.pack_into(self._page, 0, ticket)

    def is_wanted(self, ticket: int) -> bool:
        """Whether an observation is still wanted."""
        (first,) = _TICKET.unpack_from(self._page, 0)
        return bool(ticket >= first)

    def _ticket(self, cell: int) -> int:
        (ticket,) = _TICKET.unpack_from(self._page, cell)
        return int(ticket)

    def _at(self, cell: int) -> float:
        (at,) = _AT.unpack_from(self._page, cell + _TICKET.size)
        return float(at)

    @staticmethod
    def _cell(thread: int) -> int:
        return _CELL.size * (thread + 1)


def shared_memory(*, threads: int) -> int:
    """Return the descriptor of memory that a child process can share."""
    file = os.memfd_create("lakewarden-reader", os.MFD_CLOEXEC)
    os.ftruncate(file, _size(threads))
    return file


def _size(threads: int) -> int:
    return max(mmap.PAGESIZE, _CELL.size * (threads + 1))
