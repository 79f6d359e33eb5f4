"""The part of an Avro file that is in memory at a moment."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from lakewarden.planners.decoding.avro_weight import BlockPosition, Weigh
from lakewarden.planners.decoding.damage import DamagedError

WINDOW = 2**18
"""The bytes of content that are decoded at once as a piece. At worst they take 200 times as much memory
(`avro_weight`)."""

ITEM = 8 * 2**20
"""A record within the record is weighed, and decoded whole if it has at most so many bytes. A file slice of 10,000 log
files has a tenth of it."""

ENDS = "its Avro content is half-written or damaged"

TOO_LARGE = object()
"""The value in place of an item that does not fit."""

ReadPart = Callable[[int, int], bytes]
"""Returns the content from a position, at most so many bytes. It returns none at the end."""

_LONGEST_TEXT = 16 * 2**20

_MEMORY = 128 * 2**20


class FileWindow:
    """A position in the content, and the bytes that are held from there on."""

    def __init__(self, read: ReadPart) -> None:
        self._read = read
        self._held = io.BytesIO()
        self._begin = self._size = self._place = 0
        self._ended = False

    @property
    def position(self) -> int:
        """The position in the content."""
        return self._begin + self._place

    @property
    def held(self) -> bytes:
        """The bytes that are held from the position on."""
        return self._held.getvalue()[self._place :]

    def fill(self, least: int) -> bool:
        """Hold so many bytes from the position on. Return whether there are as many."""
        while self._size - self._place < least and not self._ended:
            rest = self.held
            more = self._read(self._begin + self._size, max(WINDOW, least - len(rest)))
            self._ended = not more
            self._begin, self._place, self._size = self.position, 0, len(rest) + len(more)
            self._held = io.BytesIO(rest + more)
        return self._size - self._place >= least

    def move_to(self, position: int) -> None:
        """Continue at a position in the content. Nothing is held yet."""
        self._held, self._begin, self._size, self._place = io.BytesIO(), position, 0, 0
        self._ended = False

    def weighed(self, decode: Callable[[io.BytesIO], Any], weigh: Weigh) -> Any:
        """Return the next value if it has at most ITEM bytes and does not take too much memory. Else return
        `TOO_LARGE`.
        """
        content = self.held + self._read(self._begin + self._size, ITEM)
        walk = BlockPosition(content)
        walk.left = _MEMORY
        try:
            weigh(walk)
        except DamagedError:
            return TOO_LARGE
        try:
            value = decode(io.BytesIO(content))
        except MemoryError:
            raise
        except Exception as wrong:
            raise DamagedError(ENDS) from wrong
        self.move_to(self.position + walk.position)
        return value

    def take(self, size: int) -> bytes:
        """Return the next bytes. Raises DamagedError if there are fewer."""
        if not 0 <= size <= _LONGEST_TEXT or not self.fill(size):
            raise DamagedError(ENDS)
        self._held.seek(self._place)
        self._place += size
        return self._held.read(size)

    def long(self) -> int:
        """Return the next number."""
        number = 0
        for shift in range(0, 64, 7):
            (byte,) = self.take(1)
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise DamagedError(ENDS)

    def attempt(self, decode: Callable[[io.BytesIO], Any]) -> Any:
        """Return the next value. Return `TOO_LARGE` if it does not fit into a window."""
        while True:
            self._held.seek(self._place)
            try:
                value = decode(self._held)
            except MemoryError:
                raise
            except Exception as wrong:  # a damaged or cut value can make fastavro raise any error
                if self._size - self._place >= WINDOW:
                    return TOO_LARGE
                if self._ended:
                    raise DamagedError(ENDS) from wrong
                self.fill(WINDOW)
            else:
                self._place = self._held.tell()
                return value
