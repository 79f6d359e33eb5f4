"""How often a commit is tried again if the table's pointer has moved, and after which pauses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

from lakewarden.planners.decoding.numbers import counted
from lakewarden.planners.model.errors import YieldError

_RETRIES = ("commit.retry.num-retries", 4)
_FIRST = ("commit.retry.min-wait-ms", 100)
_LONGEST = ("commit.retry.max-wait-ms", 60_000)
_TOGETHER = ("commit.retry.total-timeout-ms", 1_800_000)
_MOST = 1000


def waits(properties: Mapping[str, str]) -> Iterator[float]:
    """Yield the seconds to wait before each try. The first is 0. The others are the `pauses`."""
    yield 0.0
    yield from pauses(properties)


def until_it_does_not_yield(
    act: Callable[[], None], properties: Mapping[str, str], *, pause: Callable[[float], None] = time.sleep
) -> None:
    """Call `act` again while it raises YieldError. The table's properties say how often and after which pauses. Raises
    the last YieldError.
    """
    yielded: YieldError | None = None
    for wait in waits(properties):
        pause(wait)
        try:
            return act()
        except YieldError as error:
            yielded = error
    if yielded is not None:
        raise yielded
    return None


def pauses(properties: Mapping[str, str]) -> Iterator[float]:
    """Yield the seconds to wait before each further try, as the table's own properties ask (`TableProperties`). Each
    pause is twice the one before. Their sum stays below the table's timeout.
    """
    retries, first, longest, together = (_number(properties, *one) for one in (_RETRIES, _FIRST, _LONGEST, _TOGETHER))
    waited = 0
    for attempt in range(min(retries, _MOST)):
        pause = min(first * 2 ** min(attempt, 40), longest)
        waited += pause
        if waited > together:
            return
        yield pause / 1000


def _number(properties: Mapping[str, str], key: str, otherwise: int) -> int:
    found = counted(properties.get(key, ""))
    return otherwise if found is None else found
