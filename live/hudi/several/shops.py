"""The orders of several shops: a stream of batches for each shop, with keys of its own, in days of its own or in shared
days.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator

from lakewarden.demo.writers.orders import Row

WARM_DAYS = 2
_NEW = 8
_CHANGED_PER_DAY = (4, 2)  # today, yesterday
_RETURN_EVERY = 4


def sales(shop: str, *, seed: int, day_of: Callable[[int], int], shared: bool) -> Iterator[tuple[Row, ...]]:
    """Yield the changes of one commit after another. `day_of` returns the day of a batch; batches count from 1.

    An order of a warm day that was deleted comes back in the next batch, while the day is warm.
    """
    rng = random.Random(f"{shop} {seed}")
    living: dict[int, list[str]] = {}
    deleted: dict[int, list[str]] = {}
    for number in itertools.count(1):
        today = day_of(number)
        changed, gone, back = [], [], []
        for age, updates in enumerate(_CHANGED_PER_DAY[:WARM_DAYS]):
            orders = living.get(today - age, [])
            picked = rng.sample(orders, min(updates + 1, len(orders)))
            gone += picked[:1]
            changed += picked[1:]
            back += [(today - age, key) for key in deleted.pop(today - age, [])]
            deleted[today - age] = picked[:1]
        cold = sorted(day for day, orders in living.items() if orders and day <= today - WARM_DAYS)
        if cold and number % _RETURN_EVERY == 0:
            gone.append(rng.choice(living[rng.choice(cold)]))
        new = [f"{_day(today, shop, shared=shared)}-order-{shop}-{number:05}-{n:02}" for n in range(_NEW)]
        for day in {*range(today - WARM_DAYS + 1, today + 1), *cold}:
            living[day] = [key for key in living.get(day, []) if key not in gone]
        living[today] += new
        for day, key in back:
            living[day].append(key)
        yield (
            *(_order(key, number) for key in (*new, *changed, *(key for _, key in back))),
            *(_order(key, number, deleted=True) for key in gone),
        )


def _day(day: int, shop: str, *, shared: bool) -> str:
    return f"day-{day:06}" if shared else f"{shop}-day-{day:06}"


def _order(key: str, value: int, *, deleted: bool = False) -> Row:
    return Row(key=key, partition=key.partition("-order-")[0], value=value, deleted=deleted)
