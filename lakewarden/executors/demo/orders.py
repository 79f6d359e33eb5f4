"""What the demo's shop sells: endless, repeatable streams of small batches of upserts and deletes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from lakewarden.executors.demo.record import Row

PARTITIONS = ("north", "south", "west")
_KEYS = 240
_UPSERTS = 15
_DELETES = 3

BATCHES_PER_DAY = 3
WARM_DAYS = 3
_NEW_ORDERS = 12
_UPDATES_PER_DAY = (6, 4, 2)  # today, yesterday, the day before


def batches(seed: int) -> Iterator[tuple[Row, ...]]:
    """Yield the changes of one commit after another; every change's value is the number of its batch, from 1.

    The first batch inserts half of the keys. Later ones update living rows, insert new ones, bring deleted ones
    back, and delete some: no key twice in one batch.
    """
    dice = random.Random(seed)  # noqa: S311 - a shop's customers, no secret
    keys = [f"order-{number:04}" for number in range(_KEYS)]
    living = set(keys[: _KEYS // 2])
    yield tuple(_row(key, 1) for key in sorted(living))
    number = 1
    while True:
        number += 1
        gone = set(dice.sample(sorted(living), _DELETES))
        changed = dice.sample([key for key in keys if key not in gone], _UPSERTS)
        living = (living - gone) | set(changed)
        yield (*(_row(key, number) for key in changed), *(_row(key, number, deleted=True) for key in sorted(gone)))


def days(seed: int) -> Iterator[tuple[Row, ...]]:
    """Yield the changes of one commit after another, in partitions that move on with time: a day has a few batches.

    Every batch brings new orders of today, changes some of today's and fewer of the two days before, late ones, and
    deletes one of each warm day. A day that is not warm any more is never touched again.
    """
    dice = random.Random(seed)  # noqa: S311 - a shop's customers, no secret
    living: dict[int, list[str]] = {}
    number = 0
    while True:
        today, number = number // BATCHES_PER_DAY, number + 1
        changed, gone = [], []
        for age, updates in enumerate(_UPDATES_PER_DAY[:WARM_DAYS]):
            orders = living.get(today - age, [])
            picked = dice.sample(orders, min(updates + 1, len(orders)))
            gone += picked[:1]
            changed += picked[1:]
        new = [f"day-{today:04}-order-{number:04}-{n:02}" for n in range(_NEW_ORDERS)]
        living = {day: [key for key in keys if key not in gone] for day, keys in living.items()}
        living[today] = living.get(today, []) + new
        yield (
            *(_order_of_a_day(key, number) for key in (*new, *changed)),
            *(_order_of_a_day(key, number, deleted=True) for key in gone),
        )


def _row(key: str, value: int, *, deleted: bool = False) -> Row:
    partition = PARTITIONS[int(key.removeprefix("order-")) % len(PARTITIONS)]
    return Row(key=key, partition=partition, value=value, deleted=deleted)


def _order_of_a_day(key: str, value: int, *, deleted: bool = False) -> Row:
    return Row(key=key, partition=key.partition("-order-")[0], value=value, deleted=deleted)
