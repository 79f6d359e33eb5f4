"""A page of memory that the daemon shares with a process that reads: what each of its threads is at, without a word.

A look that hangs sends nothing, and a message for each look that begins would cost more than the look.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

_CELL = struct.Struct("@Qd")
_SKIP = struct.Struct("@Q")


class Begun(NamedTuple):
    """A look that is under way, and when it was begun, in seconds of the clock of the machine."""

    ticket: int
    at: float


class Board:
    """The page: a cell for each thread, and the ticket below which looks are not wanted any more."""

    def __init__(self, file: int, *, threads: int) -> None:
        """`file` is the descriptor of the shared memory; it may be closed afterwards."""
        self._threads = threads
        self._page = mmap.mmap(file, _size(threads))

    def begin(self, thread: int, ticket: int, at: float) -> None:
        """Say what a thread is at, and since when."""
        _CELL.pack_into(self._page, self._cell(thread), ticket, at)

    def end(self, thread: int) -> None:
        """Say that a thread is at nothing."""
        _CELL.pack_into(self._page, self._cell(thread), 0, 0.0)

    def under_way(self) -> list[Begun]:
        """Return what the threads are at."""
        found = (Begun(*_CELL.unpack_from(self._page, self._cell(thread))) for thread in range(self._threads))
        return [begun for begun in found if begun.ticket]

    def skip_before(self, ticket: int) -> None:
        """Say that looks with a smaller ticket, where they have not begun, are not wanted any more."""
        _SKIP.pack_into(self._page, 0, ticket)

    def is_wanted(self, ticket: int) -> bool:
        """Whether a look is still wanted."""
        (first,) = _SKIP.unpack_from(self._page, 0)
        return bool(ticket >= first)

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
