"""An order of requests and readings without a clock. So it is certain which of two came first."""

from __future__ import annotations


class Moments:
    """Numbers that grow. Only the control thread takes them."""

    def __init__(self) -> None:
        self._next = 1

    def mark(self) -> int:
        """Return a mark for now. A reading with at least this number was begun later."""
        return self._next

    def next(self) -> int:
        """Return the number of a reading that begins now."""
        self._next += 1
        return self._next - 1
