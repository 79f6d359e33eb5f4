"""The way to a server that many threads ask: how many at a time, and who is left alone because of what trouble.

Trouble is a table's first: what a server answers of one table, or does not answer, keeps that table back and no other.
The server itself counts as down only when several different tables in a row got no answer, or when nobody is let in.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from lakewarden.planners.model.errors import LakewardenError, PermanentError, TemporaryError

AT_FIRST = 4
"""So many may ask at a time before the server has shown what it bears."""

REST_SECONDS = 5.0
LONGEST_REST_SECONDS = 60.0
"""What is in trouble rests so long: the first time, and at most, after one trouble upon another."""

SEVERAL = 3
"""The server is down when so many different tables got no answer, and none did in between."""

SLOW = 0.25
"""An answer that takes this part of the time-out is a slow one: fewer may ask at a time."""

_MANY = 1000
"""With so many tables in trouble those are forgotten that nobody has asked for in a long time."""


class RefusedError(PermanentError):
    """A server let us not in: the name, the secret or the token that we came with is wrong, or no longer right."""


class TableRefusedError(PermanentError):
    """A server that let us in refuses us one table, as if it had not let us in."""


class UnreachableError(TemporaryError):
    """A server gave no answer: no connection, or none in time."""


class BusyError(TemporaryError):
    """A server asks for fewer requests; `after` is for how long it wants none, in seconds, where it said so."""

    def __init__(self, message: str, *, after: float | None = None) -> None:
        super().__init__(message)
        self.after = after


class ClosedError(TemporaryError):
    """A server cannot be opened: whatever is asked for, nobody is let in."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Trouble:
    """What was said, the how manieth time in a row it is, and until when nobody asks."""

    error: LakewardenError
    times: int
    until: float

    def told(self) -> LakewardenError:
        """Return the error again, for whoever asks in the meantime."""
        kind = PermanentError if isinstance(self.error, PermanentError) else TemporaryError
        return kind(str(self.error))


class Gate:
    """Lets through to one server. A plain object of the process that asks. For any thread."""

    def __init__(
        self, name: str, monotonic: Callable[[], float], *, at_most: int = 16, timeout_seconds: float = 10.0
    ) -> None:
        """`name` is what people know the server by; `at_most` may ask at a time, each for `timeout_seconds`."""
        self._name = name
        self._monotonic = monotonic
        self._at_most = at_most
        self._timeout = timeout_seconds
        self._changed = threading.Condition()
        self._inside = 0
        self._convalescent = 0  # of them, those whose table was in trouble
        self._places = float(min(AT_FIRST, at_most))
        self._fewer_since = float("-inf")
        self._troubled: dict[str, _Trouble] = {}
        self._without_answer: set[str] = set()
        self._down: _Trouble | None = None
        self._trying = False  # one asks whether it is up again

    @property
    def places(self) -> int:
        """Return how many may ask at a time now."""
        return int(self._places)

    @contextmanager
    def passed(self, table: str, *, timed: bool = True) -> Iterator[None]:
        """Ask the server about a table within the bracket. Whoever finds no place waits for one, up to the time-out.

        How long it took tells how much the server bears, unless it is not `timed`: more than one request.
        Raises TemporaryError where the server is down, the table rests, or no place became free in time; and
        what the table was refused with, while it rests for that.
        """
        tries, convalescent = self._enter(table)
        begun, error = self._monotonic(), None
        try:
            yield
        except LakewardenError as trouble:
            error = trouble
            raise
        finally:
            with self._changed:
                self._inside -= 1
                self._convalescent -= convalescent
                if tries:
                    self._trying = False
                self._learn(table, error, begun=begun, timed=timed)
                self._changed.notify_all()

    def _enter(self, table: str) -> tuple[bool, bool]:
        with self._changed:
            ill = table in self._troubled
            if not self._changed.wait_for(
                lambda: self._held_back(table) is not None or self._has_place(ill=ill), timeout=self._timeout
            ):
                raise TemporaryError(f"{self._name} is slow: of its {self.places} requests at once none ended in time")
            held_back = self._held_back(table)
            if held_back is not None:
                raise held_back.told()
            tries = self._down is not None
            self._trying = self._trying or tries
            self._inside += 1
            self._convalescent += ill
            return tries, ill

    def _held_back(self, table: str) -> _Trouble | None:
        """Return the trouble for which nobody asks about a table now: its own, or the server's."""
        own = self._troubled.get(table)
        if own is not None and self._monotonic() < own.until:
            return own
        if self._down is not None and (self._trying or self._monotonic() < self._down.until):
            return self._down
        return None

    def _has_place(self, *, ill: bool) -> bool:
        """Whether one more may ask. Tables in trouble, which may take the time-out each, share a quarter of it."""
        if ill and self._convalescent >= max(self.places // 4, 1):
            return False
        return self._inside < self.places

    def _learn(self, table: str, error: LakewardenError | None, *, begun: float, timed: bool) -> None:
        now = self._monotonic()
        match error:
            case UnreachableError() | BusyError():
                self._fewer(now, begun)
                after = min(error.after or 0, LONGEST_REST_SECONDS) if isinstance(error, BusyError) else 0
                self._troubled[table] = _again(self._troubled.get(table), error, now, at_least=after)
                self._without_answer.add(table)
                if len(self._without_answer) >= SEVERAL or self._down is not None:
                    self._down = _again(self._down, error, now, at_least=after)
            case ClosedError():
                self._down = _again(self._down, error, now)
            case TemporaryError() | TableRefusedError():
                self._answered()
                self._troubled[table] = _again(self._troubled.get(table), error, now)
            case RefusedError():
                pass  # asked again as soon as anybody likes: the secret may have been replaced
            case _:  # what it says is permanent is an answer, too
                self._answered()
                self._troubled.pop(table, None)
                if timed and now - begun > SLOW * self._timeout:
                    self._fewer(now, begun)
                elif timed:
                    self._places = min(self._places + 1 / self._places, self._at_most)
        if len(self._troubled) > _MANY:
            self._troubled = {t: one for t, one in self._troubled.items() if now < one.until + LONGEST_REST_SECONDS}

    def _answered(self) -> None:
        self._without_answer.clear()
        self._down = None

    def _fewer(self, now: float, begun: float) -> None:
        """Halve the places: once for all that were under way together."""
        if begun >= self._fewer_since:
            self._places, self._fewer_since = max(self._places / 2, 1.0), now


def _again(before: _Trouble | None, error: LakewardenError, now: float, *, at_least: float = 0) -> _Trouble:
    times = 1 if before is None else before.times + 1
    rest = min(REST_SECONDS * 2 ** min(times - 1, 10), LONGEST_REST_SECONDS)
    return _Trouble(error=error, times=times, until=now + max(rest, at_least))
