"""Limits the requests of many threads to one server: how many at a time, and which tables must wait after a failure.

A failure counts for its table first. If the server refuses one table, or gives no answer about it, only that table
waits. The server counts as down in two cases: several different tables in a row got no answer, or no request is
admitted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError

AT_FIRST = 4
"""The number of requests at a time before the load that the server can take is known."""

REST_SECONDS = 5.0
LONGEST_REST_SECONDS = 60.0
"""The shortest and the longest time without requests after a failure. The time doubles with each failure in a row."""

SEVERAL = 3
"""If so many different tables in a row got no answer, the server is down."""

SLOW = 0.25
"""An answer is slow if it takes this part of the time-out. Then fewer requests are made at a time."""

_MANY = 1000
"""If more tables than this have failed, those without a recent request are forgotten."""


class LoginRefusedError(PermanentError):
    """A server refused the login: the name, the secret or the token is wrong or has expired."""


class TableRefusedError(PermanentError):
    """A server accepted the login and refuses one table as if it had not."""


class UnreachableError(TemporaryError):
    """A server gave no answer: there was no connection, or no answer in time."""


class BusyError(TemporaryError):
    """A server asks for fewer requests. `after` is how many seconds it wants none, if it said so."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class ClosedError(TemporaryError):
    """A server cannot be opened: no request is admitted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Failure:
    """The error, how many times in a row it occurred, and until when no request is made."""

    error: LakewardenError
    times: int
    until: float

    def told(self) -> LakewardenError:
        """Return the error again, for the requests that come before `until`."""
        kind = PermanentError if isinstance(self.error, PermanentError) else TemporaryError
        return kind(str(self.error))


class CircuitBreaker:
    """Admits requests to one server. It is a plain object of the process that asks. Any thread may use it."""

    def __init__(
        self, name: str, monotonic: Callable[[], float], *, at_most: int = 16, timeout_seconds: float = 10.0
    ) -> None:
        """Start with `AT_FIRST` places. `name` is the server's name for people. At most `at_most` requests run at a
        time, each for `timeout_seconds`.
        """
        self._name = name
        self._monotonic = monotonic
        self._at_most = at_most
        self._timeout = timeout_seconds
        self._changed = threading.Condition()
        self._inside = 0
        self._probing = 0  # of them, the requests for tables that had failed
        self._places = float(min(AT_FIRST, at_most))
        self._fewer_since = float("-inf")
        self._failing: dict[str, _Failure] = {}
        self._without_answer: set[str] = set()
        self._down: _Failure | None = None
        self._trying = False  # one request asks whether the server is up again

    @property
    def places(self) -> int:
        """Return how many requests may run at a time now."""
        return int(self._places)

    @contextmanager
    def passed(self, table: str, *, timed: bool = True) -> Iterator[None]:
        """Ask the server about a table inside the `with` block. If no place is free, wait for one, up to the time-out.

        The duration shows how much load the server can take. If the block makes more than one request, it must not be
        `timed`. Raises TemporaryError if the server is down, the table must wait, or no place became free in time. If
        the server refused the table, raises that error until the time is over.
        """
        tries, probing = self._enter(table)
        begun, error = self._monotonic(), None
        try:
            yield
        except LakewardenError as raised:
            error = raised
            raise
        finally:
            with self._changed:
                self._inside -= 1
                self._probing -= probing
                if tries:
                    self._trying = False
                self._learn(table, error, begun=begun, timed=timed)
                self._changed.notify_all()

    def _enter(self, table: str) -> tuple[bool, bool]:
        with self._changed:
            was_failing = table in self._failing
            if not self._changed.wait_for(
                lambda: self._last_failure(table) is not None or self._has_place(was_failing=was_failing),
                timeout=self._timeout,
            ):
                raise TemporaryError(f"{self._name} is slow: of its {self.places} requests at once none ended in time")
            failed = self._last_failure(table)
            if failed is not None:
                raise failed.told()
            tries = self._down is not None
            self._trying = self._trying or tries
            self._inside += 1
            self._probing += was_failing
            return tries, was_failing

    def _last_failure(self, table: str) -> _Failure | None:
        """Return the failure that forbids requests about the table now: its own, or the server's."""
        own = self._failing.get(table)
        if own is not None and self._monotonic() < own.until:
            return own
        if self._down is not None and (self._trying or self._monotonic() < self._down.until):
            return self._down
        return None

    def _has_place(self, *, was_failing: bool) -> bool:
        """Whether one more request may run. Tables that failed may take the whole time-out, so they share a quarter of
        the places.
        """
        if was_failing and self._probing >= max(self.places // 4, 1):
            return False
        return self._inside < self.places

    def _learn(self, table: str, error: LakewardenError | None, *, begun: float, timed: bool) -> None:
        now = self._monotonic()
        match error:
            case UnreachableError() | BusyError():
                self._fewer(now, begun)
                after = min(error.after or 0, LONGEST_REST_SECONDS) if isinstance(error, BusyError) else 0
                self._failing[table] = _again(self._failing.get(table), error, now, at_least=after)
                self._without_answer.add(table)
                if len(self._without_answer) >= SEVERAL or self._down is not None:
                    self._down = _again(self._down, error, now, at_least=after)
            case ClosedError():
                self._down = _again(self._down, error, now)
            case TemporaryError() | TableRefusedError():
                self._answered()
                self._failing[table] = _again(self._failing.get(table), error, now)
            case LoginRefusedError():
                pass  # the next request asks again: the secret may have been replaced
            case _:  # a permanent error is an answer, too
                self._answered()
                self._failing.pop(table, None)
                if timed and now - begun > SLOW * self._timeout:
                    self._fewer(now, begun)
                elif timed:
                    self._places = min(self._places + 1 / self._places, self._at_most)
        if len(self._failing) > _MANY:
            self._failing = {t: one for t, one in self._failing.items() if now < one.until + LONGEST_REST_SECONDS}

    def _answered(self) -> None:
        self._without_answer.clear()
        self._down = None

    def _fewer(self, now: float, begun: float) -> None:
        """Halve the places, once for all requests that ran at the same time."""
        if begun >= self._fewer_since:
            self._places, self._fewer_since = max(self._places / 2, 1.0), now


def _again(before: _Failure | None, error: LakewardenError, now: float, *, at_least: float = 0) -> _Failure:
    times = 1 if before is None else before.times + 1
    rest = min(REST_SECONDS * 2 ** min(times - 1, 10), LONGEST_REST_SECONDS)
    return _Failure(error=error, times=times, until=now + max(rest, at_least))
