"""Log lines that others can cause without end are logged a few times a minute, and counted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

_MINUTE_SECONDS = 60.0
_KINDS = 1000


@dataclass(slots=True)
class _Minute:
    began: float
    told: int = 0
    withheld: int = 0


class Sampler:
    """Decides what is logged of each kind. Any thread may call every method."""

    def __init__(self, *, per_minute: int = 3, now: Callable[[], float] = time.monotonic) -> None:
        """`per_minute` is for each kind. `now` returns monotonic seconds."""
        self._per_minute = per_minute
        self._now = now
        self._kinds: dict[Hashable, _Minute] = {}
        self._guard = threading.Lock()

    def admit(self, kind: Hashable) -> int | None:
        """Return how many of a kind were withheld since the last logged one. Return None if this one is withheld.

        Kinds are few and our own. Beyond a thousand kinds within a minute, new ones are withheld.
        """
        now = self._now()
        with self._guard:
            minute = self._kinds.get(kind)
            if minute is None or now - minute.began >= _MINUTE_SECONDS:
                if minute is None and not self._has_room(now):
                    return None
                withheld = minute.withheld if minute else 0
                self._kinds[kind] = _Minute(began=now, told=1)
                return withheld
            if minute.told >= self._per_minute:
                minute.withheld += 1
                return None
            minute.told += 1
            return 0

    def _has_room(self, now: float) -> bool:
        if len(self._kinds) < _KINDS:
            return True
        self._kinds = {kind: minute for kind, minute in self._kinds.items() if now - minute.began < _MINUTE_SECONDS}
        return len(self._kinds) < _KINDS
