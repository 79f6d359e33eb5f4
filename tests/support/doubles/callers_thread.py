"""Threads for tests that must not wait: there are none."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

_T = TypeVar("_T")


class CallersThread:
    """Carries out a call at once, in the thread of the caller."""

    def submit(self, act: Callable[[], _T], *, place: str) -> Future[_T]:
        """Carry out the call, and return its result."""
        answer: Future[_T] = Future()
        try:
            answer.set_result(act())
        except Exception as error:  # noqa: BLE001 - it is raised where the answer is read
            answer.set_exception(error)
        return answer
