"""The steps of a program that must abort if one of them fails."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol, TypeVar


class Abortable(Protocol):
    """Steps that can be aborted."""

    def abort(self) -> None:
        """Abort, as far as that is possible."""
        ...


_Steps = TypeVar("_Steps", bound=Abortable)


@contextlib.contextmanager
def undertaken(steps: _Steps) -> Iterator[_Steps]:
    """Let the steps be taken. If that fails, abort them."""
    try:
        yield steps
    except Exception:
        steps.abort()
        raise
