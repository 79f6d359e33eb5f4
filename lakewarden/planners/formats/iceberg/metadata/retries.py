"""How often, and after which pauses, a commit is tried again where the table's pointer had moved. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakewarden.planners.decoding.numbers import counted

_RETRIES = ("commit.retry.num-retries", 4)
_FIRST = ("commit.retry.min-wait-ms", 100)
_LONGEST = ("commit.retry.max-wait-ms", 60_000)
_TOGETHER = ("commit.retry.total-timeout-ms", 1_800_000)
_MOST = 1000


def pauses(properties: Mapping[str, str]) -> Iterator[float]:
    """Yield the seconds to wait before each further try, as the table's own properties ask (`TableProperties`): each
    twice the one before. Their sum stays below the table's timeout.
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
