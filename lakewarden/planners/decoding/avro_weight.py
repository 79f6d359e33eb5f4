"""How much memory Avro content takes after it is decoded. The code walks over the content to find out.

One byte of content can become a dictionary of some 200 bytes, and each further byte one more. So a large block is
walked over with a budget before it is decoded. A small block can do no harm.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from lakewarden.planners.decoding.damage import DamagedError

_NUMBER = sys.getsizeof(2**40)
_LIST = sys.getsizeof([])
_MAP = sys.getsizeof({})
_TEXT = sys.getsizeof("")
_IN_A_LIST = 9
_IN_A_MAP = 100
_ENDS = "its Avro content is half-written or damaged"


class BlockPosition:
    """A position in a block, and the memory that is left of the budget."""

    __slots__ = ("content", "left", "position")

    def __init__(self, content: bytes, position: int = 0) -> None:
        self.content = content
        self.position = position
        self.left = 0

    def long(self) -> int:
        """Pass a number and return it."""
        shift = number = 0
        while True:
            try:
                byte = self.content[self.position]
            except IndexError:
                raise DamagedError(_ENDS) from None
            self.position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
            shift += 7
            if shift > 63:
                raise DamagedError(_ENDS)

    def skip(self, size: int, cost: int) -> None:
        """Pass so many bytes that will take `cost` bytes of memory."""
        if not 0 <= size <= len(self.content) - self.position:
            raise DamagedError(_ENDS)
        self.position += size
        self.left -= cost
        if self.left < 0:
            raise DamagedError("its Avro content would take too much memory")

    def text(self) -> bytes:
        """Pass bytes and return them."""
        size = self.long()
        self.skip(size, 0)
        return self.content[self.position - size : self.position]


Weigh = Callable[[BlockPosition], None]


def weigh_records(weigh: Weigh, content: bytes, records: int, *, budget: int) -> None:
    """Walk over a block of so many records. Raises DamagedError if one of them would take more than `budget` bytes of
    memory, or if the records do not fill the block.
    """
    walk = BlockPosition(content)
    for _ in range(records):
        walk.left = budget
        weigh(walk)
    if walk.position != len(content):
        raise DamagedError(_ENDS)


def nothing(walk: BlockPosition) -> None:
    """Pass a null."""


def boolean(walk: BlockPosition) -> None:
    """Pass a boolean."""
    walk.skip(1, 0)


def integer(walk: BlockPosition) -> None:
    """Pass an int, a long, or the index of an enum's symbol."""
    walk.long()
    walk.skip(0, _NUMBER)


def text(walk: BlockPosition) -> None:
    """Pass bytes or a string."""
    size = walk.long()
    walk.skip(size, _TEXT + size)


def fixed(size: int) -> Weigh:
    """Return a function that passes a value of so many bytes."""
    return lambda walk: walk.skip(size, _TEXT + size)


def union(branches: Sequence[Weigh]) -> Weigh:
    """Return a function that passes a value of one of several types."""

    def weigh(walk: BlockPosition) -> None:
        place = walk.long()
        if not 0 <= place < len(branches):
            raise DamagedError(_ENDS)
        branches[place](walk)

    return weigh


def record(names: Sequence[str], fields: Sequence[Weigh]) -> Weigh:
    """Return a function that passes a record."""
    cost = sys.getsizeof(dict.fromkeys(names))

    def weigh(walk: BlockPosition) -> None:
        walk.skip(0, cost)
        for field in fields:
            field(walk)

    return weigh


def items(item: Weigh, *, least: int, keyed: bool) -> Weigh:
    """Return a function that passes an array, or a map if its items have keys. An item takes `least` bytes."""
    empty, each = (_MAP, _IN_A_MAP) if keyed else (_LIST, _IN_A_LIST)

    def weigh(walk: BlockPosition) -> None:
        walk.skip(0, empty)
        while number := walk.long():
            if number < 0:
                number = -number
                walk.long()
            if number > (len(walk.content) - walk.position) // least:
                raise DamagedError(_ENDS)
            walk.skip(0, each * number)
            for _ in range(number):
                if keyed:
                    text(walk)
                item(walk)

    return weigh
