"""An order of what is asked, without a clock: whether something was read before or after a question is never a tie."""

from __future__ import annotations


class Moments:
    """Numbers that grow. Only the control thread takes them."""

    def __init__(self) -> None:
        self._next = 1

    def mark(self) -> int:
        """Return a mark for now: what has a number of at least this was begun later."""
        return self._next

    def next(self) -> int:
        """Return the number of what begins now."""
        self._next += 1
        return self._next - 1
