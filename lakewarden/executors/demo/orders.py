"""What the demo's shop sells: an endless, repeatable stream of small batches of upserts and deletes."""

from __future__ import annotations

import random
from collections.abc import Iterator

from lakewarden.executors.demo.record import Row

PARTITIONS = ("north", "south", "west")
_KEYS = 240
_UPSERTS = 15
_DELETES = 3


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


def _row(key: str, value: int, *, deleted: bool = False) -> Row:
    partition = PARTITIONS[int(key.removeprefix("order-")) % len(PARTITIONS)]
    return Row(key=key, partition=partition, value=value, deleted=deleted)
